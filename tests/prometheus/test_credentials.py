"""Credentials reach the server, come from the environment or a file, and are shown nowhere."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.prometheus import fleet, store
from tests.prometheus.conftest import Filled
from tests.prometheus.gateway import Gateway, Reply
from tests.prometheus.test_faults import self_signed

from vllmdoctor.cli import main
from vllmdoctor.errors import Unauthorized, Unreachable, UsageError
from vllmdoctor.recording import Recording
from vllmdoctor.sources import History, Window, gather_targets
from vllmdoctor.sources.prom.settings import read_settings

SECRET = "open-sesame-42"
HASHED = "$2b$04$abcdefghijklmnopqrstuumIRtBhXKsoBwYnzhbMFXoVR/o0XJQ46"
ROLLED = History(window_s=3600, at=fleet.END, match='namespace="rolled"')
Run = Callable[..., tuple[int, str, str]]
OPTIONS = ("--match", 'namespace="rolled"', "--window", "1h", "--at", f"{fleet.END:.0f}")


def read(target: str) -> Recording:
    return gather_targets([target], Window(history=ROLLED))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line; gives its exit code, what it wrote, and what it said beside."""
    monkeypatch.setenv("COLUMNS", "1000")

    def one(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        written = capsys.readouterr()
        return code, written.out, written.err

    return one


def headers_of(gateway: Gateway) -> dict[str, str]:
    """The headers of the last request, by lower-case name."""
    return {name.lower(): value for name, value in gateway.requests[-1][2].items()}


# --- what is sent -------------------------------------------------------------------------------


def test_a_token_from_the_environment_is_sent_with_every_request(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLMDOCTOR_PROM_TOKEN", SECRET)

    read(gateway.target)

    sent = {headers.get("Authorization") for _, _, headers in gateway.requests}
    assert sent == {f"Bearer {SECRET}"}


def test_a_token_from_a_mounted_file(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(SECRET + "\n")
    monkeypatch.setenv("VLLMDOCTOR_PROM_TOKEN_FILE", str(tmp_path / "token"))

    read(gateway.target)

    assert headers_of(gateway)["authorization"] == f"Bearer {SECRET}"


def test_a_user_and_a_password_from_the_address(gateway: Gateway) -> None:
    read(gateway.target.replace("://", f"://doctor:{SECRET}%40home@"))

    expected = base64.b64encode(f"doctor:{SECRET}@home".encode()).decode()
    assert headers_of(gateway)["authorization"] == f"Basic {expected}"


def test_everything_from_one_file_and_the_environment_before_it(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "prometheus.toml"
    config.write_text(
        f'token = "{SECRET}"\ntenant = "team-a"\ntimeout = "7s"\n'
        f'[headers]\nX-Route = "blue"\nX-Key = "{SECRET}-2"\n'
    )
    monkeypatch.setenv("VLLMDOCTOR_PROM_CONFIG", str(config))
    monkeypatch.setenv("VLLMDOCTOR_PROM_TENANT", "team-b")

    read(gateway.target)

    sent = headers_of(gateway)
    assert [sent[n] for n in ("authorization", "x-scope-orgid", "x-route", "x-key")] == [
        f"Bearer {SECRET}",
        "team-b",
        "blue",
        f"{SECRET}-2",
    ]
    assert read_settings().timeout_s == 7


def test_headers_from_the_environment_stand_one_on_a_line(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLMDOCTOR_PROM_HEADERS", f"X-One: 1\nX-Two:{SECRET}\n")

    read(gateway.target)

    assert (headers_of(gateway)["x-one"], headers_of(gateway)["x-two"]) == ("1", SECRET)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("CONFIG", "/no/such.toml", "cannot read /no/such.toml"),
        ("TOKEN_FILE", "/no/such", "cannot read /no/such"),
        ("HEADERS", "no colon here", "header 1 of VLLMDOCTOR_PROM_HEADERS"),
        ("PASSWORD", SECRET, "set VLLMDOCTOR_PROM_USER"),
        ("KEY_FILE", "key.pem", "set VLLMDOCTOR_PROM_CERT_FILE"),
        ("CA_FILE", "/no/ca.pem", "cannot use the certificates in /no/ca.pem"),
        ("TIMEOUT", "soon", "not a duration"),
        ("TOKEN", "two\nlines", "holds what a header cannot carry"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named_without_its_content(
    name: str, value: str, says: str, one: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"VLLMDOCTOR_PROM_{name}", value)

    with pytest.raises(UsageError) as caught:
        read(one.target)

    assert says in caught.value.message
    assert SECRET not in caught.value.message + caught.value.hint


# --- real servers that want to know -------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A Prometheus below a prefix, with TLS, a user with a password, and client certificates."""
    found = store.binaries()
    if not found:
        pytest.skip("NOT TESTED: no Prometheus on this machine")
    folder = tmp_path_factory.mktemp("guarded")
    certificate, key = self_signed(folder)
    config = folder / "web.yml"
    config.write_text(
        f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n"
        f"  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: {certificate}\n"
        f'basic_auth_users:\n  doctor: "{HASHED}"\n'
    )
    history = folder / "history.om"
    fleet.write(str(history))
    flags = (f"--web.config.file={config}", "--web.route-prefix=/house/prom")
    with store.prometheus(found[-1], [history], folder, *flags) as url:
        yield url.replace("http://", "prom+https://"), certificate


def test_tls_with_an_own_authority_a_login_and_a_prefix(
    guarded: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, certificate = guarded
    monkeypatch.setenv("VLLMDOCTOR_PROM_CA_FILE", str(certificate))
    monkeypatch.setenv("VLLMDOCTOR_PROM_USER", "doctor")
    monkeypatch.setenv("VLLMDOCTOR_PROM_PASSWORD", SECRET)
    monkeypatch.setenv("VLLMDOCTOR_PROM_CERT_FILE", str(certificate))
    monkeypatch.setenv("VLLMDOCTOR_PROM_KEY_FILE", str(certificate.with_name("key.pem")))

    assert len(read(target).instances) == 6


def test_a_wrong_password_is_an_error_that_does_not_show_it(
    guarded: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, certificate = guarded
    monkeypatch.setenv("VLLMDOCTOR_PROM_CA_FILE", str(certificate))

    with pytest.raises(Unauthorized) as caught:
        read(target.replace("://", "://doctor:wrong-sesame@"))

    assert "wrong-sesame" not in caught.value.message + caught.value.hint
    assert caught.value.hint == "it was asked with: user"


def test_an_authority_that_is_not_trusted_is_an_error(guarded: tuple[str, Path]) -> None:
    with pytest.raises(Unreachable) as caught:
        read(guarded[0])

    assert "TLS failed" in caught.value.message


# --- what is shown ------------------------------------------------------------------------------


def test_no_secret_is_in_anything_that_is_written(
    gateway: Gateway, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tattle(path: str, query: dict[str, list[str]], reply: Reply) -> Reply:
        """A server that repeats what it was told."""
        told = f"denied for {gateway.requests[-1][2].get('Authorization')} and {SECRET}-2"
        fields = json.loads(reply.body) | {"warnings": [told]}
        return replace(reply, body=json.dumps(fields).encode())

    gateway.spoil = tattle
    monkeypatch.setenv("VLLMDOCTOR_PROM_TOKEN", SECRET)
    monkeypatch.setenv("VLLMDOCTOR_PROM_HEADERS", f"X-Key: {SECRET}-2")
    login = gateway.target.replace("://", f"://doctor:{SECRET}-3@")
    written: list[str] = []
    for n, target in enumerate((gateway.target, login)):
        for arguments in (
            ("diagnose", target, *OPTIONS, "-v", "--save", str(tmp_path / f"saved-{n}.rec")),
            ("diagnose", target, *OPTIONS, "-f", "json"),
            ("record", target, *OPTIONS, "-o", str(tmp_path / f"recorded-{n}.rec")),
        ):
            code, out, err = run(*arguments)
            assert code == 0, err
            written += [out, err]
    for status in (200, 400, 401, 404, 422, 500, 503):
        body = f"no: {SECRET} {SECRET}-2 {SECRET}-3".encode()
        gateway.before = lambda path, query, s=status, b=body: Reply(s, b, "text/plain")  # type: ignore[misc]
        code, out, err = run("diagnose", login, *OPTIONS)
        assert code in (2, 3), err
        written += [out, err]
    recordings = [path.read_text() for path in tmp_path.glob("*.rec")]

    assert len(recordings) == 4
    assert "the server answered with a warning" in "".join(written)
    assert "no: *** *** ***" in "".join(written)
    assert [text for text in (*written, *recordings) if SECRET in text] == []


def test_a_failure_nobody_thought_of_shows_no_secret_in_its_traceback(
    gateway: Gateway, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLMDOCTOR_PROM_TOKEN", SECRET)
    # no number where the API promises one: no server does this
    gateway.before = lambda path, query: Reply(200, b'{"status":"success","data":{"result":[]}}')

    code, out, err = run("diagnose", gateway.target.replace("://", f"://doctor:{SECRET}-3@"), *OPTIONS)

    assert code in (2, 3)
    assert SECRET not in out + err


def test_the_command_line_takes_no_secret(run: Run) -> None:
    _, shown, _ = run("diagnose", "--help")

    assert "--match" in shown
    for word in ("token", "password", "header", "secret"):
        assert word not in shown.lower()


# --- the commands -------------------------------------------------------------------------------


def test_a_recording_of_what_was_asked_gives_the_same_report(one: Filled, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "asked.rec.gz"

    assert run("record", one.target, *OPTIONS, "-o", str(path))[0] == 0
    first, second = (
        json.loads(run("diagnose", *target, "-f", "json")[1])
        for target in ((one.target, *OPTIONS), (str(path),))
    )

    assert first["engines"] == second["engines"]
    for what in ("verdict", "start", "end"):
        assert first[what] == second[what]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("diagnose", "example:healthy", "--window", "1h"), "--window is for a Prometheus"),
        (("record", "example:healthy", "-o", "x.rec", "--match", 'a="b"'), "--match is for a Prometheus"),
        (("diagnose", "prom+http://127.0.0.1:1", "--at", "yesterday"), "not a time: 'yesterday'"),
    ],
)
def test_options_that_mean_nothing_there_are_refused(arguments: tuple[str, ...], says: str, run: Run) -> None:
    code, _, err = run(*arguments)

    assert code == 2
    assert says in err
