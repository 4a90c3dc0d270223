"""What `make docs` hands to the generator: pages whose links lead to pages."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs.site.build import API, api_pages, copy_pages, foreign_assets

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)")
FENCE = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "docs/a.md": "[plan](../examples/plan.toml) [b](b.md#there)\n",
        "docs/b.md": "# There\n\n```text\n[no link](nothing.md)\n```\n",
        "examples/plan.toml": "seed = 1\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_link_to_a_file_of_the_repository_leads_to_a_page_that_shows_it(root: Path) -> None:
    copy_pages(root, root / "site")
    page = (root / "site" / "a.md").read_text(encoding="utf-8")
    assert page == "[plan](repository/examples/plan.toml.md) [b](b.md#there)\n"
    shown = (root / "site" / "repository" / "examples" / "plan.toml.md").read_text(encoding="utf-8")
    assert shown.startswith("# examples/plan.toml\n")
    assert "toml\nseed = 1\n" in shown


def test_a_page_outside_docs_links_back(root: Path) -> None:
    (root / "examples" / "README.md").write_text("[b](../docs/b.md)\n", encoding="utf-8")
    (root / "docs" / "a.md").write_text("[examples](../examples)\n", encoding="utf-8")
    copy_pages(root, root / "site")
    assert (root / "site" / "a.md").read_text(
        encoding="utf-8"
    ) == "[examples](repository/examples/README.md)\n"
    back = (root / "site" / "repository" / "examples" / "README.md").read_text(encoding="utf-8")
    assert back == "[b](../../b.md)\n"


def test_a_link_to_nothing_ends_the_build(root: Path) -> None:
    (root / "docs" / "a.md").write_text("[gone](../examples/gone.toml)\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"docs/a.md: ../examples/gone.toml: there is no such file"):
        copy_pages(root, root / "site")


def test_every_link_of_the_site_leads_to_a_file_of_it(tmp_path: Path) -> None:
    copy_pages(ROOT, tmp_path)
    for page in tmp_path.rglob("*.md"):
        for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            assert (page.parent / target).is_file(), f"{page.relative_to(tmp_path)}: {target}"


def navigated(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in [entry] if isinstance(entry, str) else entry.values():
            yield from [value] if isinstance(value, str) else navigated(value)


def test_the_navigation_has_every_page_once() -> None:
    with (ROOT / "docs" / "site" / "zensical.toml").open("rb") as file:
        pages = list(navigated(tomllib.load(file)["project"]["nav"]))
    docs = ROOT / "docs"
    written = [page.relative_to(docs).as_posix() for page in docs.rglob("*.md")]
    assert sorted(pages) == sorted([*written, *(f"api/{module}.md" for module in API)])


def test_the_api_reference_has_every_public_name_once() -> None:
    pages = dict(api_pages())
    names = [name for page in pages.values() for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)]
    assert {"hocket.simulate", "hocket.plan.Clos", "hocket.units.gbps", "hocket_agent.Agent"} <= set(names)
    assert "hocket.plan.Job" not in names, "it is hocket.Job"
    assert len(names) == len(set(names))


def test_what_a_page_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://a.example/x.js"></script><a href="https://b.example/">b</a>'
        '<link rel="stylesheet" href="https://c.example/y.css"><img src="turns.svg">',
        encoding="utf-8",
    )
    assert foreign_assets(tmp_path) == {"https://a.example/x.js", "https://c.example/y.css"}
