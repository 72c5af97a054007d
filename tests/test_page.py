"""The page, in a browser: a document in, corrected and approved, a document out."""

import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Error, Page, Route, expect, sync_playwright
from serving import Running

from wholedoc.decoding.translator import Translator
from wholedoc.service.core import Service

pytestmark = pytest.mark.long
expect.set_options(timeout=120_000)  # a machine may be busy
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window: Debian's, or the one of ``playwright install chromium``."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            pytest.skip(f"no browser: {error.message.splitlines()[0]}")
        yield found
        found.close()


@pytest.fixture(scope="module")
def service(learned_toy: Path) -> Iterator[Running]:
    running = Running(Service([Translator.load(learned_toy)]))
    yield running
    running.stop()


@pytest.fixture
def page(browser: Browser, service: Running) -> Iterator[Page]:
    """The page; nothing may go wrong on it, and nothing may be asked of others."""
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    opened, faults = context.new_page(), []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    opened.on(
        "request", lambda request: faults.append(request.url) if is_outside(request) else None
    )

    def is_outside(request) -> bool:
        return not request.url.startswith((service.address, "data:", "blob:"))

    opened.goto(service.address)
    expect(opened.locator("#target option")).to_have_count(1)
    yield opened
    context.close()
    assert faults == []


HTML = "<p>s1 <b>s2</b>.</p>\n<p>s3 s4</p>\n<p>s5 s6 s7</p>\n<p>s5 s6 s7 s8</p>\n"


def open_file(page: Page, file: Path) -> None:
    page.set_input_files("#file", file)
    expect(page.locator("#state")).to_contain_text(re.compile("sentences? translated"))


@pytest.fixture
def document(tmp_path: Path) -> Path:
    file = tmp_path / "note.html"
    file.write_text(HTML)
    return file


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def fetch(page: Page, kind: str, tmp_path: Path) -> str:
    with page.expect_download() as download:
        page.click(f"#get-{kind}")
    download.value.save_as(tmp_path / "fetched")
    return (tmp_path / "fetched").read_text()


def test_a_document_goes_in_is_corrected_and_comes_out(
    page: Page, document: Path, tmp_path: Path
) -> None:
    open_file(page, document)
    expect(page.locator("#sentences > li")).to_have_count(4)
    expect(page.locator("#s1 .translation")).to_have_text("t3 t4")
    assert fetch(page, "original", tmp_path).startswith("<p>t1 <b>t2</b>")
    page.click("#s2 .translation")
    page.fill("#edit", "my own words")
    press(page, "Approve")
    expect(page.locator("#s2")).to_have_class(re.compile("approved"))
    expect(page.locator("#s2 .translation")).to_have_text("my own words")
    assert "<p>my own words</p>" in fetch(page, "original", tmp_path)
    xliff, tmx = fetch(page, "xliff", tmp_path), fetch(page, "tmx", tmp_path)
    assert '<segment state="final">' in xliff
    assert xliff.count("<target>") == 4
    assert tmx.count("<tu ") == 1  # what nobody approved is no memory
    assert "<seg>my own words</seg>" in tmx
    page.click("#s2 .translation")
    press(page, "Undo approval")
    expect(page.locator("#s2 .translation")).to_have_text("t5 t6 t7")


def test_a_download_waits_for_what_was_approved(page: Page, document: Path, tmp_path: Path) -> None:
    open_file(page, document)
    expect(page.locator("#get-original")).to_have_attribute("aria-disabled", "false")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/sentences/*", hold, times=1)
    for place in (1, 2):
        page.click(f"#s{place} .translation")
        page.fill("#edit", f"my words {place}")
        press(page, "Approve")
    with page.expect_download() as download:
        page.click("#get-original")
        page.wait_for_timeout(300)  # a page that does not wait has the file by now
        held[0].continue_()
    found = download.value.path().read_text()
    assert "my words 1" in found
    assert "my words 2" in found


def test_the_rest_of_the_document_follows(page: Page) -> None:
    page.fill("#text", "s5 s6 s7\ns1\ns5 s6 s7")
    press(page, "Translate")
    expect(page.locator("#state")).to_contain_text("3 sentences translated")
    page.click("#s0 .translation")
    page.fill("#edit", "t9 t9 t9")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#s2 .translation")).to_have_text("t9 t9 t9")
    expect(page.locator("#state")).to_contain_text("1 approved; 1 other followed")
    page.click("#s2 .translation")
    expect(page.locator(".editor")).to_contain_text("approved in this document, sentence 1")


def test_a_memory_is_recalled_from(page: Page, tmp_path: Path) -> None:
    page.fill("#text", "s1 s2 s3 s4\ns5")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#state")).to_contain_text("2 sentences translated")
    unit = "<tu><tuv xml:lang='{}'><seg>{}</seg></tuv><tuv xml:lang='{}'><seg>{}</seg></tuv></tu>"
    memory = tmp_path / "team.tmx"
    memory.write_text(
        "<tmx version='1.4'><header srclang='de'/><body>"
        + unit.format("de", "s1 s2 s3 s4", "en", "what the team says")
        + "</body></tmx>"
    )
    page.set_input_files("#memory", memory)
    expect(page.locator("#s0 .translation")).to_have_text("what the team says")
    expect(page.locator("#s0 mark").first).to_be_visible()


def test_a_glossary_is_typed_and_chosen(page: Page, tmp_path: Path) -> None:
    page.fill("#text", "s2 s1 s3\ns4")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#state")).to_contain_text("2 sentences translated")
    page.focus("#glossary summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("s1 = t5\ns2 = unheard-of")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#s0 .translation")).to_have_text("t2 t5 t3")
    expect(page.locator("#s0 .missing")).to_have_text("Missing: s2 → unheard-of")
    file = tmp_path / "terms.tsv"
    file.write_text("s1\tt6\n")
    page.set_input_files("#glossary-file", file)
    expect(page.locator("#s0 .translation")).to_have_text("t2 t6 t3")
    expect(page.locator("#s0 .missing")).to_have_count(0)
    expect(page.locator("#terms")).to_have_value("s1 = t6")


def test_the_keyboard_is_enough(page: Page) -> None:
    page.focus("#text")
    page.keyboard.type("s1 s2\n")
    page.keyboard.type("s3")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#state")).to_contain_text("2 sentences translated")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "translation":
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("#edit")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#s0 .translation")).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#s0")).to_have_class(re.compile("approved"))
    expect(page.locator("#s1 .translation")).to_be_focused()


def ask_for_alternatives(page: Page) -> None:
    page.fill("#text", "s1 s2")
    press(page, "Translate")
    expect(page.locator("#state")).to_contain_text("1 sentence translated")
    page.click("#s0 .translation")
    press(page, "Alternatives")


def test_escape_closes_the_editor_from_anywhere_in_it(page: Page) -> None:
    ask_for_alternatives(page)
    expect(page.locator(".choices button").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".editor")).to_have_count(0)
    expect(page.locator("#s0 .translation")).to_be_focused()


def test_the_bar_hides_no_sentence_that_keys_go_to(page: Page) -> None:
    page.fill("#text", "s1\n" * 60)
    press(page, "Translate")
    expect(page.locator("#state")).to_contain_text("60 sentences translated")
    page.focus("#s50 .translation")
    for _ in range(30):
        page.keyboard.press("ArrowUp")
        top = page.evaluate("document.activeElement.getBoundingClientRect().top")
        assert top >= page.evaluate("document.querySelector('.bar').getBoundingClientRect().bottom")


@pytest.mark.parametrize("width", [390, 1000])
def test_a_long_document_has_room_for_numbers_and_frames(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.fill("#text", "s1\n" * 1001)
    press(page, "Translate")
    expect(page.locator("#state")).to_contain_text("1001 sentences translated")
    page.focus("#s999 .translation")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#s999")).to_have_class(re.compile("approved"))
    page.keyboard.press("ArrowUp")
    row, button = page.locator("#s999"), page.locator("#s999 .translation")
    expect(button).to_be_focused()
    number = row.locator(".number")
    assert number.evaluate("each => each.scrollWidth <= each.clientWidth")
    frame = button.evaluate(
        "each => ((style) => parseFloat(style.outlineWidth) + parseFloat(style.outlineOffset))"
        "(getComputedStyle(each))"
    )
    inner, outer = button.bounding_box(), row.bounding_box()
    assert inner["x"] + inner["width"] + frame <= outer["x"] + outer["width"]


def test_it_is_said_when_the_last_sentence_has_come_but_not_all_is_done(page: Page) -> None:
    page.evaluate(
        "() => { window.said = []; const state = document.getElementById('state');"
        "new MutationObserver(() => said.push(state.textContent)).observe(state,"
        "{childList: true}) }"
    )
    page.fill("#text", "s1\ns2")
    press(page, "Translate")
    expect(page.locator("#state")).to_contain_text("2 sentences translated")
    assert "2 of 2 sentences, finishing…" in page.evaluate("said")


def test_nothing_is_said_to_be_translated_before_it_is(
    browser: Browser, service: Running, tmp_path: Path
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.route("**/events", lambda _: None)  # none comes
    page.goto(service.address)
    expect(page.locator("#target option")).to_have_count(1)
    page.fill("#text", "s1")
    press(page, "Translate")
    expect(page.locator("#work")).to_be_visible()
    (tmp_path / "wrong.tmx").write_text("no memory")
    page.set_input_files("#memory", tmp_path / "wrong.tmx")
    expect(page.locator("#notice")).to_be_visible()
    page.wait_for_timeout(100)
    expect(page.locator("#state")).not_to_contain_text("translated")
    context.close()


def test_what_is_wrong_is_said(page: Page) -> None:
    press(page, "Translate")
    expect(page.locator("#notice")).to_contain_text("Paste a text")


def test_a_document_is_there_again_when_the_page_is_loaded_again(
    page: Page, document: Path
) -> None:
    open_file(page, document)
    assert "note.html" in page.title()
    page.click("#s0 .translation")
    page.fill("#edit", "my own words")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#state")).to_contain_text("1 approved")
    page.reload()
    expect(page.locator("#state")).to_contain_text("4 sentences translated, 1 approved")
    expect(page.locator("#s0 .translation")).to_have_text("my own words")
    asked = []
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    press(page, "New document")  # what was approved is asked for after a change alone
    expect(page.locator("#start")).to_be_visible()
    assert asked == []
    assert "document=" not in page.url


def test_a_document_with_work_in_it_is_not_closed_by_a_slip(page: Page) -> None:
    page.fill("#text", "s1\ns2\ns3")
    press(page, "Translate")
    expect(page.locator("#state")).to_contain_text("3 sentences translated")
    page.focus("#s0 .translation")
    for _ in range(3):  # as fast as keys come; none is lost
        page.keyboard.press("Control+Enter")
    expect(page.locator("#state")).to_contain_text("3 approved")
    asked = []
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    press(page, "New document")
    assert asked == ["Close this document? 3 approved sentences are not downloaded yet."]
    expect(page.locator("#work")).to_be_visible()
    with page.expect_download():
        page.click("#get-tmx")
    press(page, "New document")
    expect(page.locator("#start")).to_be_visible()


def test_a_document_that_is_gone_is_said_to_be(browser: Browser, service: Running) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{service.address}/#document=gone")
    expect(page.locator("#notice")).to_contain_text("The document is not open any more")
    expect(page.locator("#start")).to_be_visible()
    context.close()


def test_no_alternative_is_the_translation_itself(page: Page) -> None:
    ask_for_alternatives(page)
    expect(page.locator(".choices > *").first).to_be_visible()
    assert "t1 t2" not in page.locator(".choices > *").all_inner_texts()


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_cut_off(
    browser: Browser, service: Running, document: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(service.address)
    expect(page.locator("#target option")).to_have_count(1)
    check_page(page, width)
    open_file(page, document)
    page.click("#glossary summary")
    page.fill("#terms", "s5 = unheard-of")
    press(page, "Use these terms")
    expect(page.locator("#s2 .missing")).to_be_visible()
    page.click("#s1 .translation")
    press(page, "Alternatives")
    expect(page.locator(".choices button").first).to_be_visible()
    check_page(page, width)
    context.close()


def check_page(page: Page, width: int) -> None:
    rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
    found = Axe().run(page, options=rules)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_document_of_word(page: Page, tmp_path: Path) -> None:
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    kinds = "http://schemas.openxmlformats.org/package/2006/content-types"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    file = tmp_path / "letter.docx"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{kinds}"><Override PartName="/word/document.xml" '
            f'ContentType="{main}"/></Types>',
        )
        archive.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{word}"><w:body><w:p><w:r><w:t>s1 s2</w:t></w:r></w:p>'
            "</w:body></w:document>",
        )
    open_file(page, file)
    with page.expect_download() as download:
        page.click("#get-original")
    assert download.value.suggested_filename == "letter.en.docx"
    download.value.save_as(tmp_path / "out.docx")
    with zipfile.ZipFile(tmp_path / "out.docx") as archive:
        assert b">t1 t2</w:t>" in archive.read("word/document.xml")
