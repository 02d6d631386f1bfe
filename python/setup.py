"""Puts the shared library, the C header and the licences into the package.

`make shared` builds the library in the checkout around this directory. A copy of this directory
that lies elsewhere finds the checkout by the variable ENGINE_RACE_CHECKOUT.
"""
import contextlib
import fcntl
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    # Before setuptools 70.
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(os.environ.get("ENGINE_RACE_CHECKOUT", HERE.parent))
HEADER = ROOT / "include" / "engine_race_c.h"
if not HEADER.exists():
    raise SystemExit(f"{HEADER} is missing: install from python/ of a whole checkout")
# Parts of the C library. Every system that installs wheels for manylinux has them.
PARTS_OF_LIBC = re.compile(r"(lib(c|m|dl|rt|pthread)|ld-linux-x86-64)\.so\.\d+")


def version():
    numbers = dict(re.findall(r"#define ENGINE_RACE_VERSION_(\w+) (\d+)", HEADER.read_text()))
    return ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))


def library():
    return ROOT / "lib" / f"libengine_race.so.{version()}"


@contextlib.contextmanager
def made_library():
    """Makes the library, and lets nobody else make it until its user has copied it."""
    (ROOT / "build").mkdir(exist_ok=True)
    if shutil.which("make") is None:
        sys.exit("the library cannot be built without make: scripts/setup.sh wheel installs it")
    # Whatever a make around this one is asked for, a package has the release.
    ours = {name: value for name, value in os.environ.items()
            if name not in ("FLAVOUR", "MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKELEVEL")}
    with open(ROOT / "build" / "make.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-C", str(ROOT), f"-j{len(os.sched_getaffinity(0))}",
                        "FLAVOUR=release", "shared"], check=True, env=ours)
        yield library()


def platform_tag():
    """The name of the platform with the oldest C library that has what the libraries need."""
    if not library().exists():
        with made_library():
            pass
    # Both libraries of the package. Which directory the build has its own in is not known here.
    with tempfile.TemporaryDirectory() as directory:
        shown = "".join(subprocess.run(["objdump", "-pT", str(file)], check=True, text=True,
                                       capture_output=True).stdout
                        for file in (library(), compile_async_reads(pathlib.Path(directory))))
    needed = re.findall(r"NEEDED +(\S+)", shown)
    foreign = [name for name in needed if not PARTS_OF_LIBC.fullmatch(name)]
    if foreign:
        print(f"the wheel is for this system alone: its libraries need {', '.join(foreign)}")
        return f"linux_{platform.machine()}"
    newest = max(tuple(map(int, found)) for found in re.findall(r"\bGLIBC_(\d+)\.(\d+)", shown))
    return "manylinux_{}_{}_{}".format(*newest, platform.machine())


def compile_async_reads(package):
    """The part of the package that is in C. It knows of Python no more than the library does."""
    made = package / "libengine_race_async.so"
    compiler = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    subprocess.run([*compiler, "-x", "c", "-O2", "-fPIC", "-shared", "-pthread",
                    "-s", "-o", f"{made}.new", HERE / "src" / "engine_race" / "_async_reads.c"],
                   check=True)
    os.replace(f"{made}.new", made)
    return made


def copy_licences():
    """Copies them here, under names that every version of setuptools takes for licences."""
    shutil.copyfile(ROOT / "LICENSE", HERE / "LICENSE")
    shutil.copyfile(ROOT / "scripts" / "package" / "copyright", HERE / "LICENSE.third-party")


class BuildWithLibrary(build_py):
    def run(self):
        if getattr(self, "editable_mode", False):
            # The package is imported from its sources then.
            package = HERE / "src" / "engine_race"
        else:
            package = pathlib.Path(self.build_lib) / "engine_race"
            # An earlier build may have left modules that are gone from the sources.
            shutil.rmtree(package, ignore_errors=True)
        super().run()
        with made_library() as made:
            # Under another name first: a process may have the old file mapped.
            shutil.copyfile(made, package / "libengine_race.so.new")
            os.replace(package / "libengine_race.so.new", package / "libengine_race.so")
        shutil.copyfile(HEADER, package / "engine_race_c.h")
        compile_async_reads(package)


class WithLibrary(Distribution):
    """A package that has more in it than Python code."""

    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    """For every Python of this platform: the library does not know of Python."""

    def get_tag(self):
        return ("py3", "none", platform_tag())


copy_licences()
# Versions of setuptools differ in how pyproject.toml tells a licence, and agree on this.
setup(version=version(), license="Apache-2.0", distclass=WithLibrary,
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel})
