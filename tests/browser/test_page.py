"""index.html in a real browser: it opens from disk, asks for nothing, and obeys mouse and keyboard."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from report.big_results import NAMES, results

pytestmark = pytest.mark.browser


def rows(tab):
    """The operators that the table shows now."""
    return tab.locator(".grid tbody tr[data-row] .path").evaluate_all("all => all.map(one => one.title)")


def in_execution_order(tab):
    """The table begins with causes; sort it as the operators ran."""
    tab.click("[data-sort=order]")


def test_it_opens_from_disk_asks_for_nothing_and_says_nothing(open_page):
    tab = open_page("large")
    assert tab.locator("#verdict").inner_text() == "FAIL"
    assert re.match(r"\d+ of 5000 tensors fail\.", tab.locator("h1").inner_text())


def test_only_the_rows_that_are_seen_are_there(open_page):
    tab = open_page("large")
    assert 10 < tab.locator(".grid tbody tr").count() < 80
    in_execution_order(tab)
    tab.locator(".grid").evaluate("box => { box.scrollTop = box.scrollHeight; }")
    tab.wait_for_selector("tr[data-row='4999']")
    assert tab.locator(".grid table").get_attribute("aria-rowcount") == "5001"


def test_a_hostile_name_is_text(open_page):
    tab = open_page("causes")
    in_execution_order(tab)
    assert rows(tab)[: len(NAMES)] == [f"{name}:output:0" for name in NAMES]
    tab.locator("tr[data-row='0']").click()
    assert tab.locator(".drawer h2").inner_text() == f"{NAMES[0]}:output:0"
    tab.keyboard.press("j")
    assert tab.locator(".drawer h2").inner_text() == f"{NAMES[1]}:output:0"
    assert tab.locator("img").count() == 0
    assert tab.locator("body script").count() == 2


def test_operators_that_an_exporter_counted_are_shown_as_modules(open_page):
    tab = open_page("counted")
    in_execution_order(tab)
    assert rows(tab)[::10] == ["blocks.0.part0:output:0", "blocks.2.part2:output:0"]
    tab.fill("#search", "node_linear_11")
    tab.locator("tr[data-row='11']").click()
    assert tab.locator(".drawer h2").inner_text() == "blocks.2 (Gelu):output:0"
    assert "node_linear_11:output:0" in tab.locator(".drawer").inner_text()
    # What is typed again is the operator's own name.
    assert "--select=node_linear_11" in tab.locator(".drawer .command code").inner_text()
    tab.keyboard.press("Escape")
    labels = tab.locator(".node .label").all_text_contents() + tab.locator(".node title").all_text_contents()
    assert not [label for label in labels if "node_" in label]
    assert {"blocks.0.part1", "blocks.2 (Gelu)"} <= {label.split("\n")[0] for label in labels}


def test_a_cause_is_told_once_and_by_what_its_cosine_lacks_of_one(open_page):
    tab = open_page("counted")
    tab.locator("#causes a.link").first.click()
    drawer = tab.locator(".drawer").inner_text()
    assert drawer.count("its error grew × 100, from 0.1 to 10 of its limit") == 1
    assert "after blocks.0.part0, up to the output of blocks.0.part1" in drawer
    assert "amplif" not in drawer.lower()
    assert "1 − 5e-5" in drawer


def test_the_policy_stops_what_does_not_belong(browser, pages):
    context = browser.new_context(offline=True)
    tab = context.new_page()
    text = (pages / "passing.html").read_text(encoding="utf-8")
    (pages / "injected.html").write_text(text.replace("</body>", "<script>window.injected = 1</script></body>"))
    tab.goto((pages / "injected.html").as_uri())
    assert tab.locator("#verdict").inner_text() == "PASS"
    assert tab.evaluate("typeof window.injected") == "undefined"
    context.close()


def test_sorting_turns_round_and_says_so(open_page):
    tab = open_page("large")
    tab.click("[data-sort=ratio]")
    assert tab.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    worst = tab.locator(".grid tbody tr[data-row]").first.get_attribute("data-row")
    tab.click("[data-sort=ratio]")
    assert tab.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert tab.locator(".grid tbody tr[data-row]").first.get_attribute("data-row") != worst


def test_causes_and_failures_stand_first_in_the_table(open_page):
    tab = open_page("causes")
    expected = results(200, failing=0.1, names=NAMES, roles=True)["tensors"]
    # sorted() keeps the order of execution among equals.
    rank = {record["order"]: (record.get("role") != "cause", record["verdict"] != "fail") for record in expected}
    shown = tab.locator(".grid tbody tr[data-row]").evaluate_all("all => all.map(one => Number(one.dataset.row))")
    assert shown == sorted(range(200), key=rank.__getitem__)[: len(shown)]
    assert tab.locator(".grid thead").bounding_box()["y"] == tab.locator(".grid").bounding_box()["y"] + 1
    tab.locator(".grid").evaluate("box => { box.scrollTop = 2000; }")
    assert tab.locator(".grid th").first.bounding_box()["y"] == tab.locator(".grid").bounding_box()["y"] + 1


def test_filters_meet(open_page):
    tab = open_page("causes")
    tab.get_by_role("button", name=re.compile(r"^fail \d+$")).click()
    failing = json.loads(tab.locator("#data").text_content())["report"]["counts"]["fail"]
    assert tab.get_by_text(f"{failing} of 200", exact=True).count() == 1
    tab.fill("#search", "no such operator")
    assert tab.locator(".grid .no-rows").inner_text() == "No tensor matches the filter."
    tab.fill("#search", "")
    assert tab.locator(".grid tbody tr[data-row]").count() == failing


def test_causes_stand_first_with_the_line_and_the_command(open_page):
    tab = open_page("causes")
    part = tab.locator("#causes")
    assert part.locator("h2").all_inner_texts() == ["What started it", "What to do"]
    assert "net/resnet.py:" in part.inner_text()
    assert "msdump compare target_bad reference" in part.inner_text()
    assert "Looks like: scaled" in part.inner_text()


def test_the_drawer_by_mouse_and_keyboard(open_page):
    tab = open_page("causes")
    in_execution_order(tab)
    drawer = tab.locator(".drawer")
    assert drawer.is_hidden()
    tab.locator("tr[data-row='3']").click()
    assert drawer.is_visible()
    title = drawer.locator("h2").inner_text()
    tab.keyboard.press("j")
    assert drawer.locator("h2").inner_text() != title
    tab.keyboard.press("k")
    assert drawer.locator("h2").inner_text() == title
    tab.keyboard.press("Escape")
    assert drawer.is_hidden()
    tab.locator(".grid").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "Enter"):
        tab.keyboard.press(key)
    assert drawer.locator("h2").inner_text() == f"{NAMES[2]}:output:0"
    tab.click("#close")
    assert drawer.is_hidden()


def test_the_drawer_has_every_number_of_its_tensor(open_page):
    tab = open_page("causes")
    tab.locator("#causes .causes .link").first.click()
    text = tab.locator(".drawer").inner_text()
    for told in ("cosine_similarity", "≥ 0.999", "profile default (float32)", "Worst elements", "net/resnet.py:"):
        assert told in text
    assert re.search(r"target_bad/rank_0/ResNet/0/0/Conv2D\.Default_network.*\.\d{16}\.output\.0\.Float32\.npy", text)
    assert re.search(r"reference/layer\d\.\d+\.conv\d\.0\.\d{16}\.npy", text)


def test_the_chart_by_mouse_and_keyboard(open_page):
    tab = open_page("causes")
    chart, reading = tab.locator("#chart"), tab.locator(".reading")
    chart.focus()
    tab.keyboard.press("Home")
    assert NAMES[0] in reading.inner_text()
    tab.keyboard.press("ArrowRight")
    assert NAMES[1] in reading.inner_text()
    tab.keyboard.press("n")
    assert reading.locator(".badge").inner_text() == "fail"
    tab.keyboard.press("Enter")
    assert tab.locator(".drawer h2").inner_text() in reading.inner_text()
    tab.keyboard.press("Escape")
    before = chart.evaluate("canvas => canvas.toDataURL()")
    box = chart.bounding_box()
    tab.mouse.move(box["x"] + 200, box["y"] + 60)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 500, box["y"] + 60, steps=4)
    tab.mouse.up()
    assert tab.locator(".drawer").is_hidden()
    zoomed = chart.evaluate("canvas => canvas.toDataURL()")
    assert zoomed != before
    tab.mouse.dblclick(box["x"] + 300, box["y"] + 5)
    tab.keyboard.press("Escape")
    assert chart.evaluate("canvas => canvas.toDataURL()") != zoomed


# The y of the topmost pixel in the colour of the second curve, for each tensor; None where there is none.
TOPS = """canvas => {
    const {width, height} = canvas, pen = new OffscreenCanvas(width, height).getContext("2d");
    pen.drawImage(canvas, 0, 0);
    const {data} = pen.getImageData(0, 0, width, height);
    const accent = (x, y) => [31, 95, 174].every((one, place) => data[4 * (y * width + x) + place] === one);
    return Array.from({length: 40}, (_, row) => {
        const x = Math.round(58 + (row + 0.5) / 40 * (width - 68));
        const y = Array.from({length: height}, (_, y) => y).find((y) => accent(x, y));
        return y ?? null;
    });
}"""


def test_a_replay_is_a_second_curve_that_is_above_its_limit_where_an_operator_is_wrong(open_page):
    tab = open_page("replayed")
    tops = tab.locator("#chart").evaluate(TOPS)
    wrong, right = tops[4::5], [top for row, top in enumerate(tops) if row % 5 != 4 and row]
    assert tops[0] is None
    assert None not in tops[1:]
    assert max(wrong) < min(right)
    assert "replay: 8 wrong by themselves, 31 right, 1 not replayable" in tab.locator("header").inner_text()
    told = tab.locator("section:has(#chart) .legend").inner_text()
    assert re.search(
        r"from end to end, over its limit: .*\n.*by itself, over its limit: .* a gap was not replayable", told
    )
    tab.locator("#chart").focus()
    for key in ("Home", "ArrowRight"):
        tab.keyboard.press(key)
    assert "by itself 0.0631 " in tab.locator(".reading").inner_text()
    tab.get_by_label("Show").select_option("relative_euclidean_distance")
    tab.locator("h1").hover()
    assert tab.locator("#chart").evaluate(TOPS)[2:] == [None] * 38
    assert open_page("causes").locator("section:has(#chart) .legend").count() == 0


def test_what_is_wrong_by_itself_is_sorted_and_filtered(open_page):
    tab = open_page("replayed")
    tab.click("[data-sort=local]")
    shown = tab.locator(".grid tbody tr[data-row]").evaluate_all("all => all.map(one => Number(one.dataset.row))")
    assert shown[:8] == list(range(39, 0, -5))
    assert "✗ 3.73" in tab.locator("tr[data-row='39']").inner_text()
    chips = tab.get_by_role("group", name="by itself").get_by_role("button")
    assert chips.all_inner_texts() == ["wrong by itself 8", "right by itself 31", "not replayable 1"]
    chips.first.click()
    assert tab.locator(".grid tbody tr[data-row]").count() == 8
    chips.first.click()
    chips.last.click()
    assert tab.locator(".grid tbody tr[data-row]").count() == 1
    assert "not replayable" in tab.locator("tr[data-row='0']").inner_text()


@pytest.mark.parametrize(
    ("locale", "row", "told"),
    [
        ("en-US", 0, "not replayable, because bernoulli_ draws random numbers"),
        ("zh-CN", 0, "无法重放：bernoulli_ 使用随机数"),
        ("en-US", 9, "wrong by itself: for the left's own inputs its error is 209 times the reference's own, limit"),
        (
            "en-US",
            1,
            "right by itself: for the left's own inputs its error is 1.01 times the reference's own, limit",
        ),
    ],
)
def test_the_drawer_says_once_what_a_replay_found(open_page, locale, row, told):
    tab = open_page("replayed", locale=locale)
    in_execution_order(tab)
    tab.locator(f"tr[data-row='{row}']").click()
    assert tab.locator(".drawer").inner_text().count(told) == 1


# What the drawing shows: operators of each node, where it stands, whether it has a ring.
DRAWN = """all => all.map(one => {
    const [, x, y] = one.getAttribute('transform').match(/translate\\(([-\\d.]+) ([-\\d.]+)/).map(Number);
    const said = one.querySelector('title').textContent.split('\\n').pop();
    const count = one.dataset.order !== undefined ? 1 : Number(said.match(/(\\d+) operators?/)[1]);
    return {order: Number(one.dataset.order ?? -1), x, y, count, ringed: one.querySelector('.ringed') !== null};
})"""


def edges_of(tab):
    numbers = json.loads(tab.locator("#data").text_content())["report"]["edges"]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


@pytest.mark.parametrize(("name", "operators"), [("causes", 200), ("large", 5000)])
def test_the_network_shows_every_operator_once_in_few_nodes(open_page, name, operators):
    tab = open_page(name)
    tab.wait_for_selector("#graph .node")
    drawn = tab.locator("#graph .node").evaluate_all(DRAWN)
    assert sum(one["count"] for one in drawn) == operators
    assert 10 < len(drawn) < 60
    scope = tab.locator("#graph .node[data-scope]").first
    before = scope.get_attribute("data-scope")
    scope.focus()
    tab.keyboard.press("Enter")
    opened = tab.locator("#graph .node").evaluate_all(DRAWN)
    assert sum(one["count"] for one in opened) == operators
    assert len(opened) > len(drawn)
    tab.keyboard.press("Backspace")
    assert tab.locator("#graph .node").evaluate_all(DRAWN) == drawn
    assert tab.evaluate("document.activeElement.dataset.scope") == before


def test_the_network_flows_downwards_and_rings_causes(open_page):
    tab = open_page("causes")
    tab.wait_for_selector("#graph .node")
    drawn = {one["order"]: one for one in tab.locator("#graph .node[data-order]").evaluate_all(DRAWN)}
    shown = [(drawn[one], drawn[other]) for one, other in edges_of(tab) if one in drawn and other in drawn]
    assert len(shown) > 5
    assert all(one["y"] < other["y"] for one, other in shown)
    expected = results(200, failing=0.1, names=NAMES, roles=True)["tensors"]
    started = {record["order"] for record in expected if record.get("role") == "cause"}
    assert {order for order, one in drawn.items() if one["ringed"]} == started & drawn.keys() != set()
    places = sorted((one["y"], one["x"]) for one in tab.locator("#graph .node").evaluate_all(DRAWN))
    beside = [(one, other) for one, other in itertools.pairwise(places) if one[0] == other[0]]
    assert all(other[1] - one[1] >= 190 for one, other in beside)


def test_the_network_goes_to_a_cause(open_page):
    tab = open_page("large")
    tab.wait_for_selector("#graph .node")
    choice = tab.locator("#graph select")
    order = choice.locator("option").nth(30).get_attribute("value")
    choice.select_option(order)
    assert tab.evaluate("document.activeElement.dataset.order") == order
    assert tab.locator("#graph .node[tabindex='0']").count() == 1
    box, node = (tab.locator(where).bounding_box() for where in ("#graph .network", f"#graph [data-order='{order}']"))
    assert box["y"] < node["y"] < box["y"] + box["height"]
    assert box["x"] < node["x"] < box["x"] + box["width"]
    tab.keyboard.press("Enter")
    assert tab.locator(".drawer .place").inner_text().startswith(f"op {int(order) + 1} ")


def test_several_results_stand_on_one_page_and_one_that_fails_comes_first(open_page):
    tab = open_page("ranks")
    failed = [results(40, failing=0.2 if rank else 0, names=NAMES, seed=rank)["counts"]["fail"] for rank in range(3)]
    lines = tab.locator("#results tbody tr").all_inner_texts()
    assert [line.split() for line in lines] == [
        [f"rank{rank}", "FAIL" if rank else "PASS", "40", str(failed[rank])] for rank in range(3)
    ]
    assert tab.locator("#results [aria-current]").inner_text() == "rank1"
    assert f"{failed[1]} of 40 tensors fail" in tab.locator("h1").inner_text()
    with tab.expect_navigation():
        tab.locator("#results").get_by_role("button", name="rank0").click()
    assert tab.locator("#verdict").inner_text() == "PASS"
    assert tab.locator("#results [aria-current]").inner_text() == "rank0"


@pytest.mark.parametrize("name", ["ranks", "steps"])
def test_the_error_of_a_tensor_is_drawn_along_results_or_iterations(open_page, name):
    tab = open_page(name)
    if name == "ranks":
        runs = [results(40, failing=0.2 if rank else 0, names=NAMES, seed=rank)["tensors"] for rank in range(3)]
    else:
        tensors = results(60, failing=0.2, seed=3)["tensors"]
        runs = [tensors[start : start + 12] for start in range(0, 60, 12)]
    bounds = {"relative_euclidean_distance": 0.001, "normalized_max_error": 0.01}

    def ratio(record):
        found = [record["metrics"][metric] / bound for metric, bound in bounds.items()]
        return max(*found, (1 - record["metrics"]["cosine_similarity"]) / 0.001)

    first = tab.locator("#steps .multiple").first
    curves = [[ratio(run[place]) for run in runs] for place in range(len(runs[0]))]
    worst = max(range(len(curves)), key=lambda place: max(curves[place]))
    title = first.locator("a").get_attribute("title")
    assert title == (f"{NAMES[worst]}:output:0" if name == "ranks" and worst < 3 else runs[0][worst]["left"]["address"])
    label = first.locator("svg").get_attribute("aria-label").rpartition(": ")[2].replace("< ", "")
    shown = [float(text) for text in re.findall(r"(?:rank|iteration )\d+ ([\d.e-]+)", label)]
    assert shown == pytest.approx(curves[worst], rel=6e-3, abs=1e-3)
    heights = first.locator("circle").evaluate_all("all => all.map(one => Number(one.getAttribute('cy')))")
    assert heights.index(min(heights)) == curves[worst].index(max(curves[worst]))
    first.locator("a").click()
    tab.wait_for_selector(".drawer:not([hidden])")
    assert tab.locator(".drawer h2").inner_text() == title


def test_pairs_that_look_wrong_are_told_with_their_entries(open_page):
    tab = open_page("suspicious")
    part = tab.locator("#suspicious")
    assert part.locator("tbody tr").count() == 3
    text = part.inner_text()
    assert (
        text.count("(values agree to 2e-8, same shape): a wrong pair, or the left computes the wrong tensor here") == 2
    )
    assert "values are equal, other shape" in text
    assert "ambiguous: several tensors have these values" in text
    entries = part.locator("pre").inner_text()
    assert entries.count("[[msdump.map]]\nleft") == 2
    assert f"left = {json.dumps(NAMES[0] + ':output:0')}" in entries
    part.locator(".link").first.click()
    drawer = tab.locator(".drawer")
    assert "Suspicious pair" in drawer.inner_text()
    assert drawer.locator("pre").inner_text() in entries.split("\n\n")[0]


def test_what_no_graph_tells_is_not_claimed(open_page):
    tab = open_page("suspicious")
    head = tab.locator("h1").inner_text()
    assert "20 of 20 tensors fail. The cause is unknown: no graph connects the operators. The first is" in head
    assert "inherited" not in head
    reason = "2 operators before conv1 before it (not compared); not compared: conv1.weight"
    assert reason in tab.locator("#causes").inner_text()


def test_sentences_of_the_engine_are_told_in_chinese(open_page):
    tab = open_page("suspicious", locale="zh-CN")
    assert "没有计算图说明算子间的连接，起因不明" in tab.locator("h1").inner_text()
    told = tab.locator("#causes").inner_text() + tab.locator("#suspicious").inner_text()
    for sentence in (
        "最先未通过",
        "conv1 之前的 2 个算子（未比对）",
        "数值相差 2e-8，形状相同",
        "有多个张量的值与此相同",
    ):
        assert sentence in told
    tab.locator("tr[data-row='4']").click()
    drawer = tab.locator(".drawer").inner_text()
    assert "平方差的 99 % 位于轴 1 的下标 3，其中 4 个元素有 2 个不同；其余 8 个均相同" in drawer
    assert "数据类型不同：左侧 float32，右侧 float16，而要求相同（profile bitwise）" in drawer
    tab.keyboard.press("Escape")
    tab.click("#tab-unmatched")
    assert "左侧的 left 留给映射条目：右侧为空" in tab.locator("#unmatched").inner_text()
    assert "无法确定：数值相差 1e-2，右侧轴序不同" in tab.locator("#unmatched").inner_text().replace(": ", "：")
    assert not {"WHY", "REASON"} & set(tab.locator("main").inner_text().split())


def test_both_languages_and_both_themes(open_page):
    tab = open_page("causes", locale="zh-CN", scheme="dark")
    assert tab.locator("#verdict").inner_text() == "未通过"
    assert tab.evaluate("document.documentElement.lang") == "zh-CN"
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.keyboard.press("t")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    tab.select_option("#language", "en")
    assert tab.locator("#verdict").inner_text() == "FAIL"


@pytest.mark.parametrize("name", ["causes", "replayed"])
def test_nothing_of_the_page_is_in_the_other_language(open_page, name):
    tab = open_page(name, locale="zh-CN")
    tab.evaluate("document.querySelectorAll('.grid, .mono, select, code').forEach(one => one.remove())")
    text = tab.locator("main").inner_text()
    for english in ("What", "Show", "Search", "tensors", "pass", "fail", "Theme", "Rules"):
        assert english not in text.replace("msdump", "")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", ["large", "causes", "passing", "suspicious", "replayed"])
def test_nothing_stands_beyond_the_edge(open_page, name, width):
    tab = open_page(name, width=width)
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    tab.locator("tr[data-row]").first.click()
    assert tab.evaluate("(one => one.scrollWidth <= one.clientWidth + 1)(document.querySelector('.drawer'))")
    assert tab.locator(".drawer").bounding_box()["x"] >= 0


def test_paper_shows_what_fails(open_page):
    tab = open_page("large")
    tab.emulate_media(media="print")
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert tab.locator(".grid tbody tr").count() == 400
    assert set(tab.locator(".grid tbody .badge").all_inner_texts()) == {"fail"}
    tab.emulate_media(media="screen")
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert tab.locator(".grid tbody tr").count() < 80
