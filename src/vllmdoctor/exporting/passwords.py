"""The door to bcrypt: whether a password is the one that was hashed."""

import hashlib
import hmac
import os
import threading
from collections.abc import Mapping

import bcrypt

_REMEMBERED = 100
_NOBODY = bcrypt.hashpw(b"", bcrypt.gensalt(4))


def is_hash(text: str) -> bool:
    """Whether this is a bcrypt hash, as `htpasswd -nB` prints it."""
    try:
        bcrypt.checkpw(b"", text.encode())
    except ValueError:
        return False
    return True


class Users:
    """Who may read, with bcrypt hashes. What was right is remembered: bcrypt is slow, and meant to be."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = {user: text.encode() for user, text in hashes.items()}
        self._salt = os.urandom(32)
        self._right: set[bytes] = set()
        self._lock = threading.Lock()

    def may(self, user: str, password: str) -> bool:
        """Whether this user has this password. A user who does not exist takes as long to refuse."""
        known = self._hashes.get(user, _NOBODY)
        seen = hmac.new(
            self._salt, b"\0".join((user.encode(), known, password.encode())), hashlib.sha256
        ).digest()
        with self._lock:  # one at a time: a flood of wrong ones costs one core at most
            if seen in self._right:
                return True
            right = bcrypt.checkpw(password.encode()[:72], known) and user in self._hashes
            if right and len(self._right) < _REMEMBERED:
                self._right.add(seen)
            return right
