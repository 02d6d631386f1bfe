"""Puts the shared library, the C header and the licences into the package.

They are taken from the checkout around this directory, where `make shared` builds the library.
"""
import pathlib
import platform
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    # Before setuptools 70.
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
HEADER = ROOT / "include" / "engine_race_c.h"
if not HEADER.exists():
    raise SystemExit(f"{HEADER} is missing: install from python/ of a whole checkout")
# Parts of the C library, which every system has that takes wheels for manylinux.
PARTS_OF_LIBC = re.compile(r"(lib(c|m|dl|rt|pthread)|ld-linux-x86-64)\.so\.\d+")


def version():
    numbers = dict(re.findall(r"#define ENGINE_RACE_VERSION_(\w+) (\d+)", HEADER.read_text()))
    return ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))


def library():
    return ROOT / "lib" / f"libengine_race.so.{version()}"


def platform_tag():
    """The oldest C library that has every symbol which the shared library needs."""
    shown = subprocess.run(["objdump", "-pT", str(library())], check=True, capture_output=True,
                           text=True).stdout
    needed = re.findall(r"NEEDED +(\S+)", shown)
    foreign = [name for name in needed if not PARTS_OF_LIBC.fullmatch(name)]
    if foreign:
        print(f"the wheel is for this system alone: its library needs {', '.join(foreign)}")
        return f"linux_{platform.machine()}"
    newest = max(tuple(map(int, found)) for found in re.findall(r"\bGLIBC_(\d+)\.(\d+)", shown))
    return "manylinux_{}_{}_{}".format(*newest, platform.machine())


def licences():
    """Copies them here, where setuptools looks for them; their names."""
    names = []
    for source, name in ((ROOT / "LICENSE", "LICENSE"),
                         (ROOT / "scripts" / "package" / "copyright", "copyright")):
        if source.exists():
            shutil.copyfile(source, HERE / name)
            names.append(name)
    return names


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        subprocess.run(["make", "-C", str(ROOT), "shared"], check=True)
        package = pathlib.Path(self.build_lib) / "engine_race"
        shutil.copyfile(library(), package / "libengine_race.so")
        shutil.copyfile(HEADER, package / "engine_race_c.h")


class WithLibrary(Distribution):
    """Not of Python code alone."""

    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    """For every Python of this platform: the library does not know of Python."""

    def get_tag(self):
        return ("py3", "none", platform_tag() if library().exists() else "any")


setup(version=version(), license_files=licences(), distclass=WithLibrary,
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel})
