"""TLS to the judge is verified: a server with an untrusted certificate gets neither key nor answers."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rwkvctl.settings.judge import EndpointConfig
from rwkvctl.settings.secret import Secret


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1 and its key in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: not installed")
    path = tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=judge"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out", str(tmp_path / "public.pem")]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + (tmp_path / "public.pem").read_bytes())
    return path


@pytest.mark.parametrize("trusted", [False, True])
async def test_only_a_trusted_certificate_is_spoken_to(kit: Any, certificate: Path, *, trusted: bool) -> None:
    fake = kit.FakeJudge()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    endpoint = EndpointConfig(
        base_url=url, key=Secret("sk-secret-0123456789"), ca_file=str(certificate.with_name("public.pem")) * trusted
    )
    async with server, kit.judging(endpoint) as running, asyncio.TaskGroup() as group:
        work = group.create_task(running.judge(1))
        if trusted:
            assert (await work)[0].status == "judged"
        else:
            await kit.until(lambda: "certificate" in running.service.stats().parked.lower())
            running.service.cancel_job("j1")
    assert len(fake.asked) == (1 if trusted else 0)
