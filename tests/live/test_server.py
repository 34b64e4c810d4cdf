"""The live page's server answers on loopback, and only requests that have its token."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.live import Server, address


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    page = tmp_path / "page.html"
    page.write_text("the page")
    made = Server(page=page)
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.close()
    thread.join()


def _get(server: Server, path: str, host: str | None = None) -> tuple[int, str]:
    port = int(server.url.split(":")[2].partition("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_page_is_behind_its_token(server: Server) -> None:
    assert _get(server, f"/{server.token}/") == (200, "the page")
    assert _get(server, "/")[0] == 404
    assert _get(server, "/x/")[0] == 404


def test_another_sites_name_is_refused(server: Server) -> None:
    assert _get(server, f"/{server.token}/", host="evil.example:80")[0] == 403


def test_it_listens_on_loopback_alone(server: Server) -> None:
    assert server.url.startswith("http://127.0.0.1:")


def test_what_is_missing_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Server(page=tmp_path / "page.html")
    said = str(caught.value)
    assert "make live" in said
    assert "rustup target add wasm32-unknown-unknown" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--costs", "none"], "allowed: ideal, reference, linsched"),
        (["--port", "70000"], "allowed: 0 to 65535"),
        (["--cpus", "0"], "cpus"),
        (["hogs", "--kernel", "6.1", "--kernel", "6.12", "--kernel", "7.2"], "allowed: twice"),
        (["no-such-workload"], "no workload is called"),
        (["hogs", "--set", "latency=1ms"], "base_slice"),
    ],
)
def test_bad_input_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["live", "--no-browser", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_file_of_a_workload_is_in_the_address(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text('{"tasks": {"a": {"run": 10}}}')
    assert "json=%7B%22tasks%22" in address(str(path))
    path.write_text('{"tasks": {"a": {"rum": 10}}}')
    with pytest.raises(InputError, match="line 1"):
        address(str(path))
