"""Every page: it comes, it complains of nothing, each control has a name, and it fits on a narrow screen."""

import os

from browser import Failed

PAGES = [
    ("", "Overview"),
    ("pools", "Pools"),
    ("pools/tank", "tank"),
    ("datasets", "Datasets"),
    ("datasets/tank/many", "tank/many"),
    ("snapshots", "Snapshots"),
    ("copies", "Copies"),
    ("keys", "Keys"),
    ("exports", "Exports"),
    ("performance", "Performance"),
    ("activity", "Activity"),
    ("access", "Access"),
]

# Controls without a name, and what is wider than the screen.
FAULTS = """
const named = (element) => element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.length || element.getAttribute("aria-labelledby");
const controls = [...document.querySelectorAll("button, a[href], input, select, textarea, [tabindex='0']")];
const wide = document.documentElement.scrollWidth > innerWidth ? [`${document.documentElement.scrollWidth} px wide`] : [];
return controls.filter((element) => !named(element)).map((element) => element.outerHTML).concat(wide);
"""

AXE = """
const [call] = arguments;
axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }).then((result) =>
  call(result.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`)));
"""


def run(world):
    login(world)
    all_pages(world)
    long_lists(world)
    live(world)
    hostile(world)
    expired(world)


def login(world):
    browser = world.browser
    browser.open(world.url)
    browser.fill("Token", "srt_wrong")
    browser.click("button", "Log in")
    browser.find("alert", "")
    enter(world, world.token)
    browser.find("heading", "Overview")


def enter(world, token):
    world.browser.fill("Token", token)
    world.browser.click("button", "Log in")


def all_pages(world):
    browser = world.browser
    axe = os.environ.get("AXE_CORE")
    for width, height, colours in [(1280, 900, "light"), (1280, 900, "dark"), (375, 780, "light"), (390, 780, "dark")]:
        browser.size(width, height)
        browser.colours(colours)
        for path, heading in PAGES:
            world.go(path, heading)
            browser.until("return !document.querySelector('[aria-busy]')", what=f"/{path} keeps loading")
            faults = browser.js(FAULTS)
            if axe:
                with open(axe) as file:
                    browser.js(file.read())
                faults += browser.send("POST", "/execute/async", {"script": AXE, "args": []})
            if faults:
                raise Failed(f"/{path} at {width} px, {colours}: {faults}")
    # On a narrow screen the navigation is behind a button.
    browser.click("button", "Menu")
    browser.click("link", "Keys")
    browser.find("heading", "Keys")
    browser.size(1280, 900)
    browser.colours("light")


def long_lists(world):
    """Only the rows in sight exist, and the keys reach all of them."""
    browser = world.browser
    world.go("snapshots", "Snapshots")
    number = len(world.json("list", "-t", "snapshot", "-r", "-o", "name", "tank/many"))
    grid = browser.find("grid", "Snapshots")
    browser.until("const rows = Number(document.querySelector('[role=grid]').getAttribute('aria-rowcount')) - 1; return rows >= given", number)
    few = browser.js("return arguments[0].querySelectorAll('[role=row]').length", grid)
    if few > 60:
        raise Failed(f"{few} rows are in the document")
    browser.js("arguments[0].querySelector('.list-body [role=row]').focus()", grid)
    browser.key("\ue010")
    browser.until("return document.activeElement.getAttribute('aria-rowindex') === document.querySelector('[role=grid]').getAttribute('aria-rowcount')")
    browser.key("\ue011")
    browser.key("\ue015")
    browser.key("\ue007")
    browser.until("return document.activeElement.getAttribute('aria-rowindex') === '3'")
    browser.find("button", "Roll back")

    world.go("datasets", "Datasets")
    browser.type(browser.find("searchbox", "Filter by name"), "many/7")
    browser.find("link", "tank/many/7")
    browser.says_not("tank/many/6")
    browser.click("button", "Capacity")
    browser.click("button", "tank")
    browser.find("button", "many")
    browser.click("button", "List")


def live(world):
    """What changes elsewhere, and a pool that fails, is seen without a hand on the page."""
    browser = world.browser
    world.go("datasets", "Datasets")
    browser.js("const field = document.querySelector('input[type=search]'); field.value = ''; field.dispatchEvent(new Event('input'))")
    world.run("create", "tank/arrives")
    browser.find("link", "arrives")
    world.go("", "Overview")
    browser.says("All is well")
    device = f"{world.dir}/bad.img"
    world.run("pool", "create", "-m", "none", "fragile", "mirror", f"{world.dir}/good.img", device)
    browser.find("link", "fragile")
    os.truncate(device, 0)
    world.run("pool", "scrub", "-w", "fragile")
    # It failed, or had errors that were repaired: that depends on what is read first.
    browser.says(f"fragile: {device}")
    browser.says_not("All is well")
    world.go("pools/fragile", "fragile")
    browser.find("button", f"Replace {device}")


def hostile(world):
    """Names and texts of others are text."""
    browser = world.browser
    text = "<img src=x onerror='document.title=1'>"
    world.run("set", f"org.example:note={text}", "tank/many")
    world.go("datasets/tank/many", "tank/many")
    browser.says(text)
    if browser.js("return document.querySelectorAll('img').length"):
        raise Failed("a value became an element")


def expired(world):
    """A session that ended leads to the login, and from there back to the page."""
    browser = world.browser
    end = "fetch('/v1/session', {method: 'DELETE', headers: {'X-Strongroom': '1', 'Content-Type': 'application/json'}, body: '{}'})"
    browser.send("POST", "/execute/async", {"script": f"const [call] = arguments; {end}.then(() => call(true));", "args": []})
    # Whatever comes next finds it out.
    browser.js("location.hash = '#/keys'")
    browser.says("The session has expired.")
    if "org.example" in browser.js("return document.body.innerText"):
        raise Failed("data stays in sight after the end of the session")
    enter(world, world.token)
    browser.find("heading", "Keys")


# For the documents: file, page, title, colours, width and height.
PICTURES = [
    ("overview", "", "Overview", "light", 1280, 940),
    ("pool", "pools/{pool}", "{pool}", "light", 1280, 940),
    ("keys", "keys", "Keys", "light", 1280, 900),
    ("snapshots", "datasets/{dataset}", "{dataset}", "dark", 1280, 900),
]


def pictures(world):
    """Of a pool and a dataset that the environment names."""
    browser = world.browser
    names = {"pool": os.environ["DASHBOARD_POOL"], "dataset": os.environ["DASHBOARD_DATASET"]}
    browser.open(world.url)
    enter(world, world.token)
    browser.until("return document.querySelector('line-chart .line')?.getAttribute('d').includes('L')")
    browser.says("Live")
    for file, path, heading, colours, width, height in PICTURES:
        browser.size(width, height)
        browser.colours(colours)
        world.go(path.format(**names), heading.format(**names))
        browser.until("return !document.querySelector('[aria-busy]')")
        browser.picture(f"{world.pictures}/{file}.png")
    browser.size(1280, 760)
    browser.colours("light")
    world.go("datasets", "Datasets")
    browser.click("button", "Capacity")
    browser.click("button", names["pool"])
    browser.until("return document.querySelectorAll('.tile').length > 2")
    browser.picture(f"{world.pictures}/capacity.png")
