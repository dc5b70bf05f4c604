"""The site, the Dockerfile and the citation agree with the rest of the repository."""

import pathlib
import re
import tomllib

import pytest
import yaml

import electra_tf

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
PYPROJECT = ROOT / "pyproject.toml"
TOP = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in TOP)]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = {"ARG", "FROM", "ENV", "WORKDIR", "COPY", "RUN", "CMD"}


def nav_pages(entries: list) -> list[str]:
    """Returns the files of a navigation, in order."""
    pages = []
    for entry in entries:
        values = entry.values() if isinstance(entry, dict) else [entry]
        for value in values:
            pages += nav_pages(value) if isinstance(value, list) else [value]
    return pages


def test_the_navigation_has_every_page():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = nav_pages(site["nav"])
    assert sorted(pages) == sorted(path.name for path in DOCS.glob("*.md"))
    assert all((DOCS / path).is_file() for path in site["extra_css"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    text = re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)#]+)", text)
    own = [link for link in links if "://" not in link]
    assert [link for link in own if not (page.parent / link).is_file()] == []


def test_the_dockerfile_installs_locked_versions():
    locks = re.findall(r"-r (\S+)", DOCKERFILE)
    assert locks == [f"requirements/{name}.txt" for name in ("build", "docker-gpu", "docker")]
    assert all((ROOT / lock).is_file() for lock in locks)
    runs = re.findall(r"pip install (.*)", DOCKERFILE)
    assert all("--require-hashes" in run or run.endswith("--editable .") for run in runs)
    classifiers = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["classifiers"]
    version = re.search(r"^ARG PYTHON_VERSION=(.*)$", DOCKERFILE, re.MULTILINE)[1]
    assert f"Programming Language :: Python :: {version}" in classifiers


def test_the_dockerfile_has_stages_for_cpus_and_gpus():
    joined = DOCKERFILE.replace("\\\n", "")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    assert {line.split()[0] for line in lines} == INSTRUCTIONS
    stages = [line.split()[-1] for line in lines if line.startswith("FROM")]
    assert stages == ["source", "gpu", "cpu"]


def test_what_the_image_runs_is_copied_into_it():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    packages = {"electra_tf", "pretrain_data", "finetune", "flags", "recipes", "demo"}
    assert not packages & {*ignored}
    assert {".git", ".venv", "my_data", "demo/output"} <= {*ignored}


def test_the_citation_has_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == electra_tf.__version__
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
