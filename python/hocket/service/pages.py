"""The service's pages for browsers: plain HTML that loads nothing and runs no script. Links are relative, so
that a proxy may serve the pages under any path.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from hocket import __version__
from hocket.service import overview
from hocket.service.models import JobView

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    # A shared cache would show the jobs to readers without the token.
    "cache-control": "no-store",
}
"""Sent with each page, as a second defence beside escaping: names of jobs come from clients."""

_REFRESH_S = 10
_MAX_ROWS = 500
"""Rows of the page. Hocket: more than anyone reads."""

_HEADER = (
    *("job", "ranks", "iterations", "alone"),
    *("without slot", "in slot", "verdict"),
    *("without slot", "in slot", "verdict"),
)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; }
h1 + p { margin-top: 0.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: 0.3rem 0.7rem; text-align: right; vertical-align: top; white-space: nowrap; }
th { font-weight: 600; }
th:first-child, td:first-child, td.text { text-align: left; }
td.text { white-space: normal; padding-bottom: 0.8rem; }
thead { border-bottom: 1px solid; }
th[colspan] { text-align: center; }
.aside { opacity: 0.75; }
"""


def front_page(jobs: Sequence[JobView]) -> str:
    """The front page: links, and the jobs with predicted and measured iterations."""
    noun = "job" if len(jobs) == 1 else "jobs"
    body = [
        "<h1>Hocket service</h1>",
        f"<p>Version {escape(__version__)}: {len(jobs)} {noun} registered. "
        '<a href="docs">Documentation of the API</a>, <a href="v1/jobs">jobs as JSON</a>, '
        '<a href="metrics">metrics for Prometheus</a>.</p>',
    ]
    if not jobs:
        body.append(
            "<p>No jobs are registered: <code>hocket register jobs.toml</code> "
            "registers the jobs of a plan.</p>"
        )
        return _page("Hocket service", body, refresh=True)
    body += [
        '<div class="wide"><table><thead>',
        '<tr><th colspan="4"></th><th colspan="3">predicted</th><th colspan="3">measured</th></tr>',
        _row("th", _HEADER),
        "</thead><tbody>",
    ]
    for view in jobs[:_MAX_ROWS]:
        body += [_row("td", overview.row(view, overview.mean_and_p99)), _remarks(view)]
    body.append("</tbody></table></div>")
    if len(jobs) > _MAX_ROWS:
        body.append(f'<p>{len(jobs) - _MAX_ROWS} more jobs are in <a href="v1/jobs">the JSON</a>.</p>')
    body.append(
        '<p class="aside">Times are mean iterations in ms, with the 99th percentile in brackets. '
        f"This page reloads every {_REFRESH_S} s.</p>"
    )
    return _page("Hocket service", body, refresh=True)


def api_page(schema: Mapping[str, Any]) -> str:
    """The requests of the API, from its schema."""
    body = [
        "<h1>API of the Hocket service</h1>",
        f"<p>Version {escape(schema['info']['version'])}, JSON over HTTP. "
        '<a href="openapi.json">openapi.json</a> lists every key with its type and limits. '
        '<a href=".">Back to the jobs</a>.</p>',
        '<div class="wide"><table><thead>',
        _row("th", ("request", "description", "errors")),
        "</thead><tbody>",
    ]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            refusals = ", ".join(status for status in operation["responses"] if status >= "400")
            body.append(
                f"<tr><td><code>{method.upper()} {escape(path)}</code></td>"
                f'<td class="text">{escape(operation["description"])}</td><td>{refusals}</td></tr>'
            )
    body.append("</tbody></table></div>")
    return _page("API of the Hocket service", body)


def _page(title: str, body: Iterable[str], *, refresh: bool = False) -> str:
    reload = f'<meta http-equiv="refresh" content="{_REFRESH_S}">' if refresh else ""
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta name="viewport" content="width=device-width">{reload}',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            *body,
            "</body></html>\n",
        ]
    )


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _remarks(view: JobView) -> str:
    remarks = "<br>".join(map(escape, overview.sentences(view)))
    return f'<tr><td></td><td class="text aside" colspan="{len(_HEADER) - 1}">{remarks}</td></tr>'
