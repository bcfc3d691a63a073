"""Every kubectl of this machine: the environment's own, and those that VLLMDOCTOR_TEST_KUBECTL names."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDERS = "VLLMDOCTOR_TEST_KUBECTL"  # folders with a `kubectl`, beside the one of the environment
WANTED = ((1, 20), (1, 32), (1, 37))


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One release of kubectl."""

    path: str
    version: tuple[int, int]


def found() -> dict[str, Kubectl]:
    """By which of WANTED it stands for: the newest that is not newer."""
    folders = [str(Path(sys.executable).parent), *filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))]
    by: dict[str, Kubectl] = {}
    for folder in folders:
        path = shutil.which("kubectl", path=folder)
        if path is None:
            continue
        told = subprocess.run([path, "version", "--client"], capture_output=True, text=True).stdout
        match = re.search(r"v(\d+)\.(\d+)\.", told)
        if match:
            version = int(match[1]), int(match[2])
            stands = max((w for w in WANTED if w <= version), default=WANTED[0])
            by.setdefault(".".join(map(str, stands)), Kubectl(path, version))
    return by
