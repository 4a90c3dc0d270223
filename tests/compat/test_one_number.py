"""Every output shows the same score and the same verdict."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hocket import compatibility
from hocket.figures.circles import compatibility_figure

Command = Callable[..., Any]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("snapshot*.toml"))


def two_jobs(up_us: int) -> dict[str, Any]:
    """Jobs of 20 ms each, Up at the full rate for `up_us`."""
    up = [{"start": "0 ms", "duration": f"{up_us} us", "rate": "50 Gbps"}]
    jobs = [{"name": name, "period": "20 ms", "up": up} for name in "ab"]
    return {"link": {"capacity": "50 Gbps"}, "jobs": jobs}


# At least 2 × up - 20 ms overlap, where the excess is all of the capacity: 0.9995, 0.9666, 0.9669 and 0.0001.
PLANS: list[Any] = [*EXAMPLES, *(two_jobs(up_us) for up_us in (10_005, 10_334, 10_331, 19_999))]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem if isinstance(plan, Path) else None)
def test_text_json_answer_notebook_and_picture_show_one_score_and_one_verdict(
    hocket: Command, plan: Any, tmp_path: Path
) -> None:
    path = plan if isinstance(plan, Path) else tmp_path / "plan.json"
    if path is not plan:
        path.write_text(json.dumps(plan), encoding="utf-8")
    answer, as_json = compatibility(path), hocket("compat", path, "--json").json()
    thousandths = int(answer.score * 1000 + 1e-9)
    written, verdict = f"{thousandths / 1000:.3f}", f"shifting {answer.verdict}"
    text, html = hocket("compat", path).out, answer._repr_html_()
    assert int(as_json["score"] * 1000 + 1e-9) == thousandths
    assert f"shifting {as_json['verdict']}" == verdict
    assert f"\nscore {written} " in text
    assert f"\n{verdict}: {answer.speedup}" in text
    assert f"Score {written} " in html
    assert f"{verdict}: {answer.speedup}" in html
    assert f"{verdict}, score {written}," in repr(answer)
    figure = compatibility_figure(answer)
    title = figure.get_suptitle()
    assert re.search(rf"score {re.escape(written)}\b", title)
    # The printed excess over the link after shifting and the printed score add up to 1.
    assert f"mean excess {100 - thousandths / 10:.1f}% of the link" in figure.axes[-1].get_title()
