"""The locked versions are those that pyproject.toml allows, complete, and have hashes."""

import dataclasses
import functools
import importlib.metadata
import pathlib
import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "requirements"
DOCKER_EXTRAS = ("serving", "scoring", "demo", "corpus")
# Lock to the extras of pyproject.toml that it covers.
EXTRAS = {
    "dev": ("dev",),
    "docs": ("docs",),
    "docker": DOCKER_EXTRAS,
    "docker-gpu": ("gpu", *DOCKER_EXTRAS),
}
# Lock to the files that it is made from.
INPUTS = {"build": "build.in", "tools": "tools.in", "fuzz": "fuzz.in"}
PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A version of a package in a lock.

    Attributes:
        name: normalized name.
        version: the only version that it admits.
        marker: where it is installed; None if everywhere.
        num_hashes: number of files whose SHA-256 is given.
    """

    name: str
    version: str
    marker: Marker | None
    num_hashes: int


def parse_lock(text: str) -> list[Entry]:
    """Returns the entries of a requirements file.

    Raises:
        ValueError: a line is neither a comment nor a version of a package with hashes.
    """
    entries = []
    lines = re.sub(r"(?m)^\s*#.*\n?", "", text).replace("\\\n", " ").splitlines()
    for line in lines:
        requirement = Requirement(HASH.sub("", line).strip())
        version = re.fullmatch(r"==([\w.!+]+)", str(requirement.specifier))
        if requirement.url or not version:
            raise ValueError(f"Not one version: {line}")
        entries.append(
            Entry(
                canonicalize_name(requirement.name),
                version[1],
                requirement.marker,
                len(HASH.findall(line)),
            )
        )
    return entries


@functools.cache
def lock(name: str) -> tuple[Entry, ...]:
    return tuple(parse_lock((FOLDER / f"{name}.txt").read_text(encoding="utf-8")))


@functools.cache
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def required(extras: tuple[str, ...]) -> Iterator[Requirement]:
    """Yields what the package and its extras require, extras of extras included."""
    yield from map(Requirement, project()["project"]["dependencies"])
    waiting = list(extras)
    while waiting:
        for text in project()["project"]["optional-dependencies"][waiting.pop()]:
            requirement = Requirement(text)
            if requirement.name == project()["project"]["name"]:
                waiting += requirement.extras
            else:
                yield requirement


def environments() -> Iterator[dict[str, str]]:
    """Yields the variables of markers on every platform that the locks are for."""
    pythons = [
        classifier.rpartition(" ")[2]
        for classifier in project()["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", classifier)
    ]
    assert len(pythons) == 3
    for python in pythons:
        for system, machine in PLATFORMS:
            yield {
                **default_environment(),
                "python_version": python,
                "python_full_version": f"{python}.1",
                "sys_platform": system,
                "platform_system": system.title(),
                "platform_machine": machine,
                "os_name": "posix",
                "extra": "",
            }


def versions(name: str, environment: dict[str, str]) -> dict[str, str]:
    """Returns the versions that a lock installs in an environment, by package."""
    entries = [e for e in lock(name) if not e.marker or e.marker.evaluate(environment)]
    found = {entry.name: entry.version for entry in entries}
    assert len(found) == len(entries), "a package twice"
    return found


def unsatisfied(
    requirements: list[Requirement], installed: dict[str, str], environment: dict[str, str]
) -> list[str]:
    """Returns the requirements that versions do not satisfy in an environment."""
    wrong = []
    for requirement in requirements:
        if requirement.marker and not requirement.marker.evaluate(environment):
            continue
        version = installed.get(canonicalize_name(requirement.name))
        if not version or not requirement.specifier.contains(version, prereleases=True):
            wrong.append(str(requirement))
    return wrong


@pytest.mark.parametrize("name", [*EXTRAS, *INPUTS])
def test_every_entry_has_hashes(name):
    assert lock(name)
    assert [entry.name for entry in lock(name) if not entry.num_hashes] == []


@pytest.mark.parametrize("name", [*EXTRAS, *INPUTS])
def test_no_index_is_named(name):
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


@pytest.mark.parametrize("name", EXTRAS)
def test_what_pyproject_requires_is_locked(name):
    requirements = list(required(EXTRAS[name]))
    assert len(requirements) > 10
    for environment in environments():
        assert unsatisfied(requirements, versions(name, environment), environment) == []


@pytest.mark.parametrize("name", INPUTS)
def test_what_an_input_requires_is_locked(name):
    lines = (FOLDER / INPUTS[name]).read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if not line.startswith("#")]
    if name == "build":
        requirements += map(Requirement, project()["build-system"]["requires"])
    for environment in environments():
        assert unsatisfied(requirements, versions(name, environment), environment) == []


@pytest.mark.parametrize("name", [*EXTRAS, *INPUTS])
def test_dependencies_of_installed_versions_are_locked(name):
    """Locks are installed without resolving: what a package requires must be in them."""
    environment = {**default_environment(), "extra": ""}
    installed = versions(name, environment)
    checked, missing = 0, {}
    for package, version in installed.items():
        try:
            distribution = importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        if distribution.version == version:
            checked += 1
            requirements = [Requirement(text) for text in distribution.requires or ()]
            if wrong := unsatisfied(requirements, installed, environment):
                missing[package] = wrong
    assert missing == {}
    if not checked:
        pytest.skip("this environment has other versions")


@pytest.mark.parametrize("name", ["docs", "docker", "docker-gpu"])
def test_locks_agree_with_the_tested_versions(name):
    for environment in environments():
        tested = versions("dev", environment)
        different = {
            package: (version, tested[package])
            for package, version in versions(name, environment).items()
            if tested.get(package, version) != version
        }
        assert different == {}


def test_the_environment_depends_on_its_lock():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\nLOCK ?= requirements/dev.txt\n" in makefile
    assert re.search(r"^\$\(READY\):.*\$\(LOCK\)", makefile, re.MULTILINE)


@pytest.mark.parametrize(
    "line", ["numpy", "numpy>=2.0", "numpy @ https://example.org/numpy.whl", "--index-url x"]
)
def test_a_line_that_locks_nothing_is_noticed(line):
    with pytest.raises(ValueError, match=r"Not one version|Expected"):
        parse_lock(f"{line}\n")
