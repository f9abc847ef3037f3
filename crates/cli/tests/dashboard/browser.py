"""Chromium by WebDriver, with nothing but the standard library. Elements are found by role and name, as a screen
reader finds them."""

import base64
import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"

# The longest that anything may take, in seconds. Nothing waits for it to pass.
PATIENCE = int(os.environ.get("PATIENCE", 90))

# Elements that can have a role.
SELECTORS = {
    "alert": "[role=alert]",
    "article": "article",
    "button": "button",
    "checkbox": "input[type=checkbox]",
    "combobox": "select",
    "dialog": "dialog[open]",
    "grid": "[role=grid]",
    "heading": "h1, h2, h3",
    "img": "svg[role=img]",
    "link": "a[href]",
    "list": "ul",
    "region": "section",
    "row": "[role=row]",
    "searchbox": "input[type=search]",
    "textbox": "input:not([type=checkbox]):not([type=search]), textarea",
    "treegrid": "[role=treegrid]",
}

# Calls back with all elements in sight of a kind that may have a name, once there is one.
CANDIDATES = """
const [selector, name, inside, call] = arguments;
const words = (element) => [element.getAttribute("aria-label"), element.textContent, ...[...(element.labels ?? [])].map((label) => label.textContent)];
const has = (element) => words(element).some((text) => text?.replace(/\\s+/g, " ").includes(name));
const look = () => {
  const top = inside ?? document.querySelector("dialog[open]") ?? document;
  const found = [...top.querySelectorAll(selector)].concat(top.matches?.(selector) ? [top] : []).filter((element) => element.checkVisibility() && (!name || has(element)));
  found.length ? call(found) : setTimeout(look, 20);
};
look();
"""

# Calls back once a function of the page returns something.
UNTIL = """
const [source, given, call] = arguments;
const test = new Function("given", source);
const look = () => { const is = test(given); is ? call(is) : setTimeout(look, 20); };
look();
"""


class Failed(AssertionError):
    pass


class Browser:
    def __init__(self, chromium, driver):
        self.profile = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = None
        for line in self.process.stdout:
            if "started successfully on port" in line:
                port = int(line.rsplit("port", 1)[1].strip(" .\n"))
                break
        self.url = f"http://127.0.0.1:{port}"
        options = {
            "binary": chromium,
            "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                "--no-first-run", "--disable-background-networking", "--disable-component-update",
                # The certificate of the test is signed by nobody.
                "--ignore-certificate-errors", f"--user-data-dir={self.profile.name}",
            ],
        }
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
                  "timeouts": {"script": PATIENCE * 1000, "pageLoad": PATIENCE * 1000}}
        self.url += "/session/" + self.send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        self.size(1280, 900)

    def close(self):
        try:
            self.send("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait()
            self.profile.cleanup()

    def send(self, method, path, body=None):
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE + 30) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise Failed(f"{path}: {value['error']}: {value['message'].splitlines()[0]}") from None

    def devtools(self, command, **parameters):
        return self.send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, scheme):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.send("GET", "/screenshot")))

    def open(self, url):
        self.send("POST", "/url", {"url": url})

    def js(self, source, *given):
        return self.send("POST", "/execute/sync", {"script": source, "args": list(given)})

    def until(self, source, given=None, what=None):
        """Waits until the body of a function returns something true, and returns it."""
        try:
            return self.send("POST", "/execute/async", {"script": UNTIL, "args": [source, given]})
        except Failed as failure:
            raise Failed(f"{what or source}: {failure}; the page says:\n{self.js('return document.body.innerText')}") from None

    def complaints(self):
        """What the browser says on its console, such as violations of the policy for scripts."""
        rows = self.send("POST", "/se/log", {"type": "browser"})
        return [row["message"] for row in rows if row["level"] in ("SEVERE", "WARNING")]

    # Elements by role and name.

    def find(self, role, name, inside=None):
        """Waits for an element in sight with a role, and a name that begins so; in the dialog, if one is open."""
        end = time.monotonic() + PATIENCE
        while True:
            seen = []
            for element in self.candidates(SELECTORS[role], name, f"no {role} '{name}'", inside):
                try:
                    is_role, label = self.role(element), self.label(element)
                except Failed:
                    # It went meanwhile.
                    continue
                if is_role == role and label.startswith(name):
                    return element
                seen.append((is_role, label))
            if time.monotonic() > end:
                raise Failed(f"no {role} '{name}', but {seen}")

    def label(self, element):
        return " ".join(self.send("GET", f"/element/{element[ELEMENT]}/computedlabel").split())

    def role(self, element):
        role = self.send("GET", f"/element/{element[ELEMENT]}/computedrole")
        return {"image": "img"}.get(role, role)

    def click(self, role, name, inside=None):
        element = self.find(role, name, inside)
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        self.send("POST", f"/element/{element[ELEMENT]}/click")

    def type(self, element, text):
        self.send("POST", f"/element/{element[ELEMENT]}/value", {"text": text})

    def fill(self, name, text):
        """Types into a field, in place of what was there."""
        element = self.field(name)
        self.js("arguments[0].select()", element)
        self.type(element, text or "\ue017")

    def field(self, name):
        """The field with this label; in the dialog, if one is open."""
        return self.candidates("input:not([type=checkbox]), select, textarea", name, f"no field '{name}'")[0]

    def candidates(self, selector, name, what, inside=None):
        try:
            return self.send("POST", "/execute/async", {"script": CANDIDATES, "args": [selector, name, inside]})
        except Failed as failure:
            raise Failed(f"{what}: {failure}; the page says:\n{self.js('return document.body.innerText')}") from None

    def choose(self, name, option):
        element = self.find("combobox", name)
        self.js("const [select, text] = arguments; select.focus(); select.value = [...select.options].find((one) => one.text.startsWith(text)).value; select.dispatchEvent(new Event('change', {bubbles: true}));", element, option)

    def says(self, text):
        """Waits until a text is in sight."""
        self.until("return document.body.innerText.includes(given)", text, f"no text '{text}'")

    def says_not(self, text):
        self.until("return !document.body.innerText.includes(given)", text, f"still the text '{text}'")

    def key(self, key):
        """Presses a key where the focus is."""
        self.send("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})
