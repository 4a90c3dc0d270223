"""Builds the documentation site, `site/html`, for `make docs`.

The pages of `docs/` are copied to `site/pages` with all files of the repository that they link to, so that
every link leads to a page of the site. The generator then reads the copies; its strict mode fails on a broken
link.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

API = {
    "hocket": "What most programs need.",
    "hocket.plan": "A class for each table of a plan.",
    "hocket.units": "Durations, rates and amounts of data.",
    "hocket.workloads": "The catalogue of models.",
    "hocket.schedulers": "What a scheduler of your own is given, and what it returns.",
    "hocket.export": "A plan as settings of NCCL, switches and NICs.",
    "hocket_agent": "The agent in a training job.",
}
"""Modules of the API reference, with a sentence on each."""

# A link to a file: neither a web address nor a heading of the same page.
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
# Of `link` elements, only style sheets are loaded with the page.
_ASSET = re.compile(r"""(?:\bsrc=|<link\b[^>]*\brel="?stylesheet[^>]*\bhref=)["']?(https?:[^"'\s>]+)""")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".ipynb": "json", ".py": "python"}


def main() -> None:
    """Copies the pages, runs the generator, and exits with a message if a page needs the web."""
    site = ROOT / "site"
    # Anew each time: a page that was removed from `docs/` must not stay on the site.
    shutil.rmtree(site, ignore_errors=True)
    copy_pages(ROOT, site / "pages")
    for name, text in api_pages():
        _write(site / "pages" / "api" / name, text)
    (site / "pages" / "assets").mkdir()
    for name in ("iframe-worker.js", "site.css"):
        shutil.copy(HERE / name, site / "pages" / "assets")
    shutil.copy(HERE / "zensical.toml", site)
    build = [sys.executable, "-m", "zensical", "build", "--strict"]
    status = subprocess.run(build, cwd=site, check=False).returncode
    if status:
        sys.exit(status)
    # Pages must open on a machine without access to the web.
    foreign = sorted(foreign_assets(site / "html"))
    if foreign:
        sys.exit("pages load these from elsewhere: " + ", ".join(foreign))
    print(f"the site: {site / 'html' / 'index.html'}")


def copy_pages(root: Path, target: Path) -> None:
    """Copies the pages of `root`/docs and everything that they link to, directly or through another page."""
    waiting = sorted((root / "docs").rglob("*.md"))
    copied = set(waiting)
    while waiting:
        source = waiting.pop()
        place = target / _place(source, root)
        if source.suffix == ".md":
            text, linked = _with_links(source, root)
            _write(place, text)
            waiting += sorted(linked - copied)
            copied |= linked
        elif place.suffix == ".md":
            _write(place, _listing(source, root))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)


def api_pages() -> Iterator[tuple[str, str]]:
    """The pages of the API reference: their names, and their text, in which the generator replaces each `:::`
    line by the documentation of a name.

    A name that several modules export is on the page of the first one.
    """
    seen: set[int] = set()
    for module, sentence in API.items():
        lines = [f"# {module}", "", sentence, ""]
        exported = import_module(module)
        for name in getattr(exported, "__all__", None) or _defined(exported):
            value = getattr(exported, name)
            # By identity, because not every value, such as the catalogue, can be hashed.
            if id(value) not in seen:
                lines += [f"::: {module}.{name}", ""]
            seen.add(id(value))
        yield f"{module}.md", "\n".join(lines)


def foreign_assets(directory: Path) -> set[str]:
    """The web addresses from which the pages in `directory` load scripts, styles or pictures."""
    return {
        address
        for page in directory.rglob("*.html")
        for address in _ASSET.findall(page.read_text(encoding="utf-8"))
    }


def _defined(module: object) -> list[str]:
    """The public functions and classes that `module` itself defines, in their order."""
    home = getattr(module, "__name__", None)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == home
    ]


def _place(source: Path, root: Path) -> Path:
    """Where a file of the repository is on the site: pages at the top, others below `repository`."""
    if source.is_relative_to(root / "docs"):
        return source.relative_to(root / "docs")
    path = Path("repository") / source.relative_to(root)
    if source.suffix in (".md", ".png", ".svg"):
        return path
    # Any other file becomes a page that shows its text: a browser would offer it for download.
    return path.with_name(f"{path.name}.md")


def _with_links(page: Path, root: Path) -> tuple[str, set[Path]]:
    """The text of `page` with its links changed to those of the site, and the files that it links to.

    Raises `SystemExit` for a link to a file that does not exist.
    """
    linked: set[Path] = set()
    depth = len(_place(page, root).parts) - 1

    def replaced(link: re.Match[str]) -> str:
        target = (page.parent / link[1]).resolve()
        if target.is_dir() and (target / "README.md").exists():
            target /= "README.md"
        if not target.is_relative_to(root) or not target.exists():
            raise SystemExit(f"{page.relative_to(root)}: {link[1]}: there is no such file")
        linked.add(target)
        return f"]({'../' * depth}{_place(target, root).as_posix()}{link[2] or ''})"

    text = page.read_text(encoding="utf-8")
    # Blocks of code stay as they are: brackets and parentheses in them are no links.
    parts = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(replaced, text[end : fence.start()]), fence[0]]
        end = fence.end()
    parts.append(_LINK.sub(replaced, text[end:]))
    return "".join(parts), linked


def _listing(source: Path, root: Path) -> str:
    """A page that shows a file as it is, or the names in a directory."""
    title = f"# {source.relative_to(root).as_posix()}\n\n"
    if source.is_dir():
        return title + "".join(f"- `{each.name}`\n" for each in sorted(source.iterdir()))
    language = _LANGUAGES.get(source.suffix, source.suffix.removeprefix("."))
    # Longer than any fence in the file, which would end the block.
    fence = "`" * 8
    return f"{title}{fence}{language}\n{source.read_text(encoding='utf-8')}\n{fence}\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
