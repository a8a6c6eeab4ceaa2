"""Builds the drivers into a cache outside the source tree; a second run reuses all of it."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
REPOSITORY = HERE.parent.parent
APACHE_VERSION = "5.3.3"
PYTHON_CLIENT = "rocketmq==0.4.4"  # its wheel carries the C++ client as a shared library


def cache():
    chosen = os.environ.get("METAQ_INTEROP_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else base / "metaq-interop"


def missing(*commands):
    """Which of these commands are not installed, as text, or None."""
    absent = [c for c in commands if not shutil.which(c)]
    return f"needs {' and '.join(absent)}" if absent else None


def java(source, version):
    """Compiles one Maven project for one client version; returns its class path."""
    out = cache() / f"{source.name}-{version}"

    def build():
        _run(
            ["mvn", "-q", "-B", "compile", "dependency:build-classpath"]
            + [f"-Drocketmq.version={version}", f"-Doutput.directory={out}"],
            source,
        )

    _once(out, [source / "pom.xml", source / "src"], build)
    return f"{out / 'classes'}:{(out / 'classpath.txt').read_text().strip()}"


def apache():
    return java(HERE / "apache", APACHE_VERSION)


def rust(server):
    """Compiles the Rust driver the way the tested server was; returns the binary."""
    release = server.parent.name == "release"
    _run(["cargo", "build", "-p", "metaq", "--example", "interop"] + (["--release"] if release else []), REPOSITORY)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target")
    return target / ("release" if release else "debug") / "examples" / "interop"


def go():
    """Compiles the Go driver; returns the binary."""
    out = cache() / "go"
    binary = out / "driver"
    _once(out, [HERE / "go"], lambda: _run(["go", "build", "-o", str(binary), "."], HERE / "go"))
    return binary


def python():
    """Makes a virtual environment that has the C++ client; returns its interpreter."""
    out = cache() / "python"

    def build():
        _run([sys.executable, "-m", "venv", str(out / "venv")], HERE)
        pip = [str(out / "venv/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run(pip + [PYTHON_CLIENT], HERE)

    _once(out, [], build, salt=PYTHON_CLIENT + sys.version)
    return out / "venv/bin/python"


def _once(out, sources, build, salt=""):
    """Builds unless the stamp in `out` says that these very sources were built there."""
    digest = hashlib.sha256(salt.encode())
    for file in sorted(f for s in sources for f in ([s] if s.is_file() else s.rglob("*"))):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    stamp = out / "built-from"
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    build()
    stamp.write_text(digest.hexdigest())


def _run(argv, cwd):
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        raise RuntimeError(f"{argv[0]} failed in {Path(cwd).name}: {output[-1500:]}")
