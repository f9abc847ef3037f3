"""Users without root's rights: a delegate and a tenant see and do what is theirs, and are told why not else."""

from browser import Failed

PAGES = ["Overview", "Datasets", "Snapshots", "Copies", "Keys", "Access"]
# Jobs that copy datasets are no business of a tenant.
OF_TENANT = [page for page in PAGES if page != "Copies"]


def run(world):
    if not world.delegate:
        # Only root makes tokens of others.
        return
    world.run("snapshot", "tank/theirs@old")
    delegate(world)
    expired(world)
    tenant(world)


def enter(world, token, expected):
    """Logs in as another user."""
    browser = world.browser
    browser.click("button", "Log out")
    browser.fill("Token", token)
    browser.click("button", "Log in")
    world.go("", "Overview")
    pages = browser.js("return [...document.querySelectorAll('#navigation a')].map((link) => link.textContent)")
    if pages != expected:
        raise Failed(f"the pages are {pages}")


def sees_only(world, own):
    """No page has the name of a dataset that the user has no right to."""
    browser = world.browser
    for path, heading in [("", "Overview"), ("datasets", "Datasets"), ("snapshots", "Snapshots"), ("keys", "Keys"), ("access", "Access")]:
        world.go(path, heading)
        browser.until("return !document.querySelector('[aria-busy]')", what=f"/{path} keeps loading")
        links = browser.js("return [...document.querySelectorAll('main a[href^=\"#/datasets/\"]')].map((link) => link.getAttribute('href').split('@')[0])")
        if set(links) - {f"#/datasets/{own}"}:
            raise Failed(f"/{path} has links to {links}")
        text = browser.js("return document.querySelector('main').innerText")
        for name in ("tank/many", "tank/made", "tank/theirs", "tank/rented"):
            if name in text and name != own:
                raise Failed(f"/{path} shows '{name}': {text}")
    # Pages that are for root, by their address.
    for path, heading in [("pools", "Pools"), ("exports", "Exports")]:
        world.go(path, heading)
        browser.says("You have no right to see this.")
    world.go("datasets/tank/many", "tank/many")
    browser.says("All datasets")
    browser.says_not("Take a snapshot")


def takes_snapshot(world, dataset, snapshot):
    browser = world.browser
    world.go(f"datasets/{dataset}", dataset)
    browser.click("button", "Take a snapshot")
    browser.fill("Name of the snapshot", snapshot)
    browser.click("button", "Take the snapshot")
    browser.says(f"{dataset}@{snapshot} was taken.")


def refused(world, button, why, fill=(), verb=None):
    """The dialog says why, in the words of the command line."""
    browser = world.browser
    browser.click("button", button)
    dialog = browser.find("dialog", "")
    for name, text in fill:
        browser.fill(name, text)
    browser.click("button", verb or button, dialog)
    browser.find("alert", "")
    browser.says(why)
    browser.key("\ue00c")
    browser.until("return !document.querySelector('dialog[open]')")


def delegate(world):
    enter(world, world.delegate, PAGES)
    sees_only(world, "tank/theirs")
    takes_snapshot(world, "tank/theirs", "new")
    why = "you do not have the permission"
    refused(world, "Create a dataset below", why, [("Name", "tank/theirs/below")], "Create")
    refused(world, "Destroy", why, [("Type", "tank/theirs")])
    refused(world, "Set quota", why, [("Value", "1G")], "Set")
    refused(world, "Give permissions", why, [("Name", "daemon"), ("Permissions", "destroy")], "Allow")
    names = world.run("list", "-H", "-r", "-t", "all", "-o", "name", "tank/theirs").split()
    if names != ["tank/theirs", "tank/theirs@old", "tank/theirs@new"]:
        raise Failed(f"there are {names}")


def expired(world):
    """What was allowed no longer is refused at once; a token that was revoked ends the session."""
    browser = world.browser
    world.run("unallow", "daemon", "snapshot", "tank/theirs")
    refused(world, "Take a snapshot", "users with a permission", [("Name of the snapshot", "more")], "Take the snapshot")
    [row] = [row for row in world.json("web", "token", "list") if row["label"] == "delegate"]
    world.run("web", "token", "revoke", row["id"])
    browser.js("location.hash = '#/keys'")
    browser.find("button", "Log in")
    if "theirs" in browser.js("return document.body.innerText"):
        raise Failed("data stays in sight after the end of the session")
    browser.fill("Token", world.token)
    browser.click("button", "Log in")
    browser.find("heading", "Keys")


def tenant(world):
    browser = world.browser
    enter(world, world.tenant, OF_TENANT)
    browser.says("in zone flat")
    sees_only(world, "rented")
    takes_snapshot(world, "rented", "new")
    world.run("get", "name", "tank/rented@new")
    world.go("datasets/tank/rented", "tank/rented")
    browser.says("All datasets")
