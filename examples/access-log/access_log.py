"""Make an access log: a real nginx on loopback, and a bounded number of requests to it.

    python access_log.py OUTPUT [--requests N] [--seed N]

The pages are a few small files; the requests are a seeded mix of paths, methods, agents, and misses (404). nginx runs
in the foreground as a child, from a folder of its own, and is stopped at the end.
"""

from __future__ import annotations

import argparse
import http.client
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """daemon off;
worker_processes 1;
pid {root}/nginx.pid;
error_log {root}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log {output} combined;
    client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3;
    uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;
    server {{
        listen 127.0.0.1:{port};
        root {root}/site;
        location = /old {{ return 301 /; }}
        location /private/ {{ return 403; }}
    }}
}}
"""

PAGES = {"index.html": 2000, "about.html": 900, "style.css": 4000, "logo.svg": 6500, "docs/start.html": 3200}
PATHS = [
    "/",
    "/index.html",
    "/about.html",
    "/style.css",
    "/logo.svg",
    "/docs/start.html",
    "/old",
    "/missing",
    "/private/x",
]
WEIGHTS = [30, 10, 8, 20, 15, 9, 3, 4, 1]
AGENTS = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Safari/605.1.15",
    "curl/8.5.0",
]


def find_nginx() -> str | None:
    """Return the path of nginx; on Debian it is outside of users' PATH."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/opt/homebrew/bin")


def record(nginx: str, output: Path, requests: int, seed: int, seconds: float) -> None:
    """Run nginx for `requests` requests within about `seconds`; it writes the access log `output`."""
    with tempfile.TemporaryDirectory(prefix="access-log-") as folder:
        root = Path(folder)
        root.chmod(0o755)  # an nginx that root starts reads its pages as another user
        for page, size in PAGES.items():
            path = root / "site" / page
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x" * size)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (root / "nginx.conf").write_text(CONFIG.format(root=root, port=port, output=output.resolve()))
        process = subprocess.Popen([nginx, "-p", folder, "-c", "nginx.conf"], stderr=subprocess.DEVNULL)
        try:
            load(port, requests, random.Random(seed), seconds)
        finally:
            process.terminate()
            process.wait(10)


def load(port: int, requests: int, chance: random.Random, seconds: float) -> None:
    """Send the requests over one connection, paced."""
    connection = _connect(port)
    for _ in range(requests):
        path = chance.choices(PATHS, WEIGHTS)[0]
        method = chance.choices(["GET", "HEAD", "POST"], [94, 4, 2])[0]
        headers = {"User-Agent": chance.choice(AGENTS), "Referer": chance.choice(["-", "http://127.0.0.1/"])}
        connection.request(
            method, f"{path}?n={chance.randrange(9)}" if chance.random() < 0.1 else path, headers=headers
        )
        connection.getresponse().read()
        time.sleep(seconds / requests)
    connection.close()


def _connect(port: int) -> http.client.HTTPConnection:
    for _ in range(100):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.connect()
        except OSError:
            time.sleep(0.05)
        else:
            return connection
    raise TimeoutError("nginx does not answer")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make an access log with a real nginx.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=10, help="over which the requests are spread")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    nginx = find_nginx()
    if nginx is None:
        print("nginx is not installed", file=sys.stderr)
        return 1
    record(nginx, options.output, options.requests, options.seed, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
