"""The page of a server, in a browser: text is typed, and texts with their scores appear."""

import re
import shutil

import pytest
from commands import start

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium and chromedriver")


@pytest.fixture(scope="module")
def address(trained):
    given = (f"--model_dir={trained[0]}", "--module_import=numbered_task", "--port=0")
    process = start("serve", *given)
    found = re.search(r"http://\S+/", process.stdout.readline())
    assert found, process.stderr.read()
    yield found[0]
    process.terminate()
    process.communicate(timeout=120)


@pytest.fixture
def browser(tmp_path):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'user'}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield browser
    browser.quit()


def outputs(browser, count):
    """The rows of the table, once there are so many with scores."""

    def rows(_):
        found = browser.find_elements(By.CSS_SELECTOR, "#outputs tr")
        cells = [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in found]
        return cells if len(cells) == count and all("." in row[1] for row in cells) else False

    return WebDriverWait(browser, 120, ignored_exceptions=[Exception]).until(rows)


def test_texts_and_beams_appear(browser, address):
    browser.get(address)
    WebDriverWait(browser, 60).until(lambda b: "step 20" in b.find_element(By.ID, "model").text)
    browser.find_element(By.ID, "inputs").send_keys("n22")
    browser.find_element(By.ID, "run").click()
    ((_, score, tokens),) = outputs(browser, 1)
    assert float(score) < 0 and int(tokens) >= 1
    Select(browser.find_element(By.ID, "kind")).select_by_value("beam")
    browser.find_element(By.ID, "run").click()
    scores = [float(row[1]) for row in outputs(browser, 4)]
    assert scores == sorted(scores, reverse=True)
    logged = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert [entry for entry in logged if "favicon" not in entry["message"]] == []


def test_a_refusal_is_shown(browser, address):
    browser.get(address)
    browser.find_element(By.ID, "inputs").send_keys("far too long a text for this model")
    browser.find_element(By.ID, "run").click()
    error = browser.find_element(By.ID, "error")
    WebDriverWait(browser, 60).until(lambda _: "tokens" in error.text)
