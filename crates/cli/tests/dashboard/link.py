"""The page that `strongroom web open` serves, from the link to the end of its session."""

import subprocess

from browser import Failed


def run(world):
    browser = world.browser
    process = subprocess.Popen([world.program, "web", "open"], stdout=subprocess.PIPE, text=True)
    try:
        link = process.stdout.readline().strip()
        browser.open(link)
        browser.find("heading", "Overview")
        # The code is not in the address, and so not in the history.
        address = browser.js("return location.href")
        if link.split("#")[1] in address or "open" in address:
            raise Failed(f"the address is {address}")
        if browser.js("return document.cookie"):
            raise Failed("a script can read the cookie")
        # The same browser may open the link again; one without the session may not.
        browser.open("about:blank")
        browser.open(link)
        browser.find("heading", "Overview")
        cookies = browser.devtools("Network.getAllCookies")["cookies"]
        browser.devtools("Network.clearBrowserCookies")
        browser.open("about:blank")
        browser.open(link)
        browser.says("the link was used already")
        [own] = [cookie for cookie in cookies if cookie["name"].startswith("strongroom-")]
        browser.devtools("Network.setCookie", name=own["name"], value=own["value"], url=link.split("#")[0], httpOnly=True, sameSite="Strict")
        browser.open(link.split("#")[0])
        browser.click("button", "Log out")
        browser.says("You are logged out.")
        browser.says("strongroom web open")
        if process.wait(timeout=60):
            raise Failed("the process does not end well")
    finally:
        process.kill()
        process.wait()
