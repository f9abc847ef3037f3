"""What a person does with the dashboard, in a real browser. `dashboard.rs` starts it, with the server.

With DASHBOARD_PICTURES=DIR it only takes pictures of the pages of a server, for the documents. The server is the one that
the other variables name: any that runs.
"""

import json
import os
import subprocess
import sys

import acts
import link
import others
import pages
from browser import Browser, Failed


class World:
    """The daemon under test, by its command line, and the browser."""

    def __init__(self):
        self.program = os.environ["STRONGROOM"]
        self.url = os.environ["DASHBOARD_URL"]
        self.token = os.environ["DASHBOARD_TOKEN"]
        # Of a user with a permission, and of the tenant of a zone, if there are such users.
        self.delegate = os.environ.get("DASHBOARD_DELEGATE")
        self.tenant = os.environ.get("DASHBOARD_TENANT")
        self.dir = os.environ["DASHBOARD_DIR"]
        self.pictures = os.environ.get("DASHBOARD_PICTURES")
        self.browser = Browser(os.environ["CHROMIUM"], os.environ["CHROMEDRIVER"])

    def run(self, *words, **more):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, **more)
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def json(self, *words):
        return json.loads(self.run("--json", *words))

    def get(self, property, name):
        return self.json("get", property, name)[0]["properties"][property]["value"]

    def history(self, pool="tank"):
        return [row["text"] for row in self.json("pool", "history", pool)]

    def go(self, path, heading):
        """Opens a page, and waits for its title."""
        self.browser.js("location.hash = '#/' + arguments[0]", path)
        self.browser.find("heading", heading)


def main():
    world = World()
    try:
        if world.pictures:
            return pages.pictures(world)
        for part in (pages, acts, others, link):
            part.run(world)
        complaints = [line for line in world.browser.complaints() if "status of 4" not in line]
        if complaints:
            raise Failed(f"the browser complains: {complaints}")
    except Failed as failure:
        sys.exit(f"dashboard: {failure}")
    finally:
        world.browser.close()


main()
