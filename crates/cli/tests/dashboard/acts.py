"""Each act, from its button to its effect. The dialog shows the command that the history then has."""

import os

from browser import Failed


class Acts:
    def __init__(self, world):
        self.world = world
        self.browser = world.browser

    def act(self, button, fill=(), choose=(), check=(), secrets=(), asked=(), confirm=None, verb=None, said=None, in_history=True):
        """Opens a dialog by its button, fills it, checks the command that it shows, and confirms it. `asked` are secrets
        that only the daemon knows it needs."""
        browser = self.browser
        browser.click("button", button)
        dialog = browser.find("dialog", "")
        for name, option in choose:
            browser.choose(name, option)
        for name, text in fill:
            browser.fill(name, text)
        for name in check:
            browser.click("checkbox", name)
        for name, text in secrets:
            browser.fill(name, text)
        shown = browser.js("return arguments[0].querySelector('pre').textContent", dialog)
        verb = verb or button
        if confirm:
            go = browser.find("button", verb)
            if not browser.js("return arguments[0].disabled", go):
                raise Failed(f"'{verb}' can be pressed before the name is typed")
            browser.fill("Type", confirm)
        before = len(self.world.history()) if in_history else 0
        browser.click("button", verb)
        for name, text in asked:
            browser.fill(name, text)
        if asked:
            browser.click("button", verb)
        self.closed(said)
        if in_history:
            new = self.world.history()[before:]
            if shown not in new:
                raise Failed(f"the dialog showed '{shown}', and the history has {new}")
        return shown

    def closed(self, said=None):
        self.browser.until(
            "const failure = document.querySelector('dialog [role=alert]'); return failure ? failure.innerText : !document.querySelector('dialog[open]')",
            what="the dialog stays open",
        )
        failure = self.browser.js("return document.querySelector('dialog [role=alert]')?.innerText")
        if failure:
            raise Failed(f"refused: {failure}")
        if said:
            self.browser.says(said)


def run(world):
    acts = Acts(world)
    datasets(acts)
    keys(acts)
    snapshots(acts)
    properties(acts)
    exports(acts)
    permissions(acts)
    slots(acts)
    new_pool(acts)
    copies(acts)
    pools(acts)


def datasets(acts):
    world, browser = acts.world, acts.browser
    world.go("datasets", "Datasets")
    acts.act(
        "Create a dataset",
        fill=[("Name", "tank/made")],
        choose=[("Encryption", "On, with a key")],
        secrets=[("New passphrase", "correct horse"), ("The same again", "correct horse")],
        verb="Create",
        said="tank/made was created.",
    )
    browser.find("heading", "tank/made")
    assert world.get("encryption", "tank/made") == "on"

    # A refusal is shown in the dialog, in the words of the command line, and nothing is lost.
    browser.click("button", "Create a dataset below")
    browser.fill("Name", "tank/made")
    browser.click("button", "Create", browser.find("dialog", "Create a dataset"))
    browser.find("alert", "")
    browser.says("exists")
    browser.key("\ue00c")
    browser.until("return !document.querySelector('dialog[open]')")

    world.go("datasets", "Datasets")
    volume(acts)


def volume(acts):
    browser = acts.browser
    browser.click("button", "Create a dataset")
    browser.choose("Kind", "Volume")
    browser.fill("Name", "tank/disk")
    browser.fill("Size", "4M")
    browser.click("button", "Create", browser.find("dialog", "Create a dataset"))
    acts.closed("tank/disk was created.")
    assert acts.world.get("volsize", "tank/disk") == 4 << 20


def keys(acts):
    world, browser = acts.world, acts.browser
    world.go("keys", "Keys")
    acts.act("Unload the key of tank/made", verb="Unload the key", said="is unloaded", in_history=False)
    assert world.get("keystatus", "tank/made") == "unavailable"
    browser.says("Locked")

    # A wrong passphrase is refused, and can be typed again.
    browser.click("button", "Load the key of tank/made")
    browser.fill("Passphrase", "wrong")
    browser.click("button", "Load the key", browser.find("dialog", "Load the key"))
    browser.find("alert", "")
    browser.fill("Passphrase", "correct horse")
    browser.click("button", "Load the key", browser.find("dialog", "Load the key"))
    acts.closed("The key of tank/made is loaded.")
    assert world.get("keystatus", "tank/made") == "available"

    acts.act("Change the key of tank/made", secrets=[("New passphrase", "battery staple"), ("The same again", "battery staple")], verb="Change the key", said="another one now")
    acts.act("Rotate data keys of tank/made", verb="Rotate", said="has new data keys", in_history=False)
    assert len(world.json("key", "generations", "tank/made")) == 2
    browser.click("button", "Data keys of tank/made")
    browser.says("seals what is written now")
    browser.click("button", "Data keys of tank/made")


def slots(acts):
    """A slot that the key source needs: what is refused has a button that forces it."""
    world, browser = acts.world, acts.browser
    world.run("key", "add", "tank/made", input="another passphrase\nanother passphrase\n")
    world.go("keys", "Keys")
    browser.click("button", "Slots of tank/made")
    before = world.json("key", "slots", "tank/made")
    acts.act(f"Remove slot {before[-1]['slot']} of tank/made", confirm="tank/made", verb="Remove the slot", said="was removed")
    assert len(world.json("key", "slots", "tank/made")) == len(before) - 1


def forced(acts):
    """What the command line does with `-f` is a button beside the failure, and the failure stays in sight until then."""
    world, browser = acts.world, acts.browser
    world.go("pools", "Pools")
    browser.click("button", "Create a pool")
    dialog = browser.find("dialog", "Create a pool")
    browser.fill("Name", "second")
    browser.choose("Layout", "Single disks: none may fail")
    browser.choose("Encryption of the root dataset", "Off: anybody with the devices can read it")
    browser.fill("Devices, one in a line", f"{world.dir}/used.img")
    browser.fill("Mountpoint", "none")
    browser.click("button", "Create", dialog)
    browser.find("alert", "")
    browser.fill("Mountpoint", "none")
    browser.find("alert", "")
    browser.says("With force: overwrite what the devices hold")
    browser.click("button", "Force")
    acts.closed("second was created.")
    browser.find("heading", "second")
    shown = world.history("second")[0]
    if " -f " not in shown:
        raise Failed(f"the history has {shown}")


def new_pool(acts):
    world, browser = acts.world, acts.browser
    world.go("pools", "Pools")
    files = [f"{world.dir}/new-{number}.img" for number in range(1, 6)]
    browser.click("button", "Create a pool")
    dialog = browser.find("dialog", "Create a pool")
    browser.fill("Name", "fresh")
    browser.fill("Devices, one in a line", "\n".join(files[:4]))
    browser.fill("Create the devices as files of this size", "64M")
    browser.fill("Spares", files[4])
    browser.choose("Encryption of the root dataset", "Off: anybody with the devices can read it")
    browser.fill("Mountpoint", "none")
    browser.says("Survives the loss of any one disk of each mirror")
    browser.says("About 128 MiB for data.")
    # The daemon has looked, and made nothing.
    browser.says("the pool can be created")
    assert "fresh" not in world.run("pool", "list", "-H")
    shown = browser.js("return arguments[0].querySelector('pre').textContent", dialog)
    browser.click("button", "Create", dialog)
    acts.closed("fresh was created.")
    browser.find("heading", "fresh")
    history = world.history("fresh")
    if shown not in history:
        raise Failed(f"the dialog showed '{shown}', and the history has {history}")
    world.run("pool", "export", "fresh")
    os.rename(f"{world.dir}/new-1.img", f"{world.dir}/used.img")
    forced(acts)


def copies(acts):
    """A job from its making to its end. It copies to the pool that `forced` has made."""
    world, browser = acts.world, acts.browser
    world.go("copies", "Copies")
    browser.says("Nothing is copied")
    job = [("Name of the job", "offsite"), ("Dataset to copy", "tank/many/1"), ("Target", "second/one")]
    acts.act("Copy a dataset", fill=job, verb="Add the job", said="The job offsite was added.", in_history=False)
    browser.find("heading", "offsite")
    # Without an event nothing would be seen.
    browser.says("the copy has every snapshot")
    browser.says("Only a verification shows whether the copy is whole")
    browser.says("replicate drill offsite tank/many/1")
    world.run("snapshot", "tank/many/1@copied")
    browser.says("behind")
    browser.click("button", "Run offsite of tank/many/1")
    browser.says("It would send")
    browser.click("button", "Run", browser.find("dialog", "Run offsite now"))
    acts.closed("offsite has run.")
    browser.says("the copy has every snapshot")
    assert "second/one@copied" in world.run("list", "-H", "-t", "snapshot", "-o", "name")
    acts.act("Verify offsite of tank/many/1", verb="Verify", said="were read", in_history=False)
    browser.says("all copies are whole")
    acts.act("Pause offsite of tank/many/1", verb="Pause", said="pauses")
    browser.says("Paused")
    acts.act("Resume offsite of tank/many/1", verb="Resume", said="goes on")
    acts.act("Remove offsite of tank/many/1", confirm="offsite", verb="Remove", said="was removed")
    browser.says("Nothing is copied")
    world.run("pool", "export", "second")


def snapshots(acts):
    world, browser = acts.world, acts.browser
    world.go("datasets/tank/made", "tank/made")
    acts.act("Take a snapshot", fill=[("Name of the snapshot", "first")], verb="Take the snapshot", said="tank/made@first was taken.")
    acts.act("Take a snapshot", fill=[("Name of the snapshot", "second")], verb="Take the snapshot", said="tank/made@second was taken.")
    browser.click("button", "@first")
    acts.act("Hold", fill=[("Tag", "<b>keep</b>")], said="is held")
    acts.act("Release", said="was released")
    acts.act("Clone", fill=[("Name of the clone", "tank/copy")], asked=[("New passphrase", "another one"), ("The same again", "another one")], said="tank/copy was created.")
    assert world.get("origin", "tank/copy") == "tank/made@first"
    world.go("datasets/tank/made", "tank/made")
    browser.click("button", "@second")
    destroy_snapshot(acts)
    browser.click("button", "@first")
    acts.act("Roll back", confirm="tank/made", said="Rolled back to tank/made@first.")
    acts.act("Schedule snapshots", fill=[("Daily snapshots kept", "7")], verb="Set the schedule", said="daily:7")
    assert world.get("snapshot-schedule", "tank/made") == "daily:7"
    # The lane of the line of time says how many are kept.
    browser.find("img", "Snapshots of tank/made over time. Daily")

    world.go("datasets/tank/copy", "tank/copy")
    acts.act("Destroy", check=["Unmount it even"], confirm="tank/copy", said="tank/copy was destroyed.", in_history=False)
    browser.find("heading", "Datasets")
    assert "tank/copy" not in world.run("list", "-H", "-o", "name")


def destroy_snapshot(acts):
    """The page of the dataset has a button of this name too: this is the one of the snapshot."""
    browser = acts.browser
    region = browser.js("return document.querySelector('[aria-label=\"The chosen snapshot\"]')")
    browser.click("button", "Destroy", region)
    browser.says("This goes:")
    browser.fill("Type", "tank/made@second")
    browser.click("button", "Destroy", browser.find("dialog", "Destroy a snapshot"))
    acts.closed("tank/made@second was destroyed.")
    assert "tank/made@second" not in acts.world.run("list", "-H", "-t", "snapshot", "-o", "name")


def properties(acts):
    world, browser = acts.world, acts.browser
    world.go("datasets/tank/made", "tank/made")
    acts.act("Set quota", fill=[("Value", "10M")], verb="Set", said="quota of tank/made is 10M")
    assert world.get("quota", "tank/made") == 10 << 20
    acts.act("Inherit quota", verb="Inherit", said="is inherited")


def exports(acts):
    world, browser = acts.world, acts.browser
    world.go("exports", "Exports")
    acts.act("Export over NBD", fill=[("Volume", "tank/disk"), ("Name of the export", "<i>disk</i>")], verb="Export", said="tank/disk is exported.", in_history=False)
    browser.says("<i>disk</i>")
    acts.act("Take back <i>disk</i>", confirm="<i>disk</i>", verb="Take it back", said="no longer exported", in_history=False)
    browser.says("Nothing is exported.")
    acts.act(
        "Export over iSCSI",
        fill=[("Volume", "tank/disk"), ("Name of the target", "iqn.2026-01.org.example:disk"), ("Portal", "127.0.0.1:0")],
        choose=[("Login", "Without")],
        verb="Export",
        said="tank/disk is exported.",
        in_history=False,
    )
    acts.act("Take back iqn.2026-01.org.example:disk", confirm="iqn.2026-01.org.example:disk", verb="Take it back", said="no longer exported", in_history=False)


def permissions(acts):
    world, browser = acts.world, acts.browser
    world.go("datasets/tank/made", "tank/made")
    acts.act("Give permissions", fill=[("Name", "daemon"), ("Permissions", "snapshot, mount")], verb="Allow", said="have changed")
    [row] = world.json("allow", "tank/made")
    assert (row["name"], sorted(row["permissions"])) == ("daemon", ["mount", "snapshot"]), row
    acts.act("Take away from daemon", verb="Take them away", said="have changed")
    browser.says("Only root may do something here.")


def pools(acts):
    world, browser = acts.world, acts.browser
    world.go("pools/tank", "tank")
    acts.act("Scrub", verb="Go on", said="has begun")
    browser.says("The last scrub ended")
    first, second = f"{world.dir}/first.img", f"{world.dir}/second.img"
    acts.act(f"Take offline {second}", verb="Take offline", said="is offline")
    # The page shows it without being asked.
    browser.says("Degraded")
    acts.act(f"Take back {second}", verb="Take it back", said="is online")
    browser.says_not("Degraded")
    acts.act(f"Replace {second}", fill=[("New device", f"{world.dir}/third.img")], confirm="tank", verb="Replace", said="takes the place")
    browser.until("return !document.querySelector('main').innerText.includes(given)", second, "the old device stays")
    acts.act(f"Attach a mirror to {first}", fill=[("New device", f"{world.dir}/fourth.img")], verb="Attach", said="is attached")
    browser.find("button", f"Detach {world.dir}/fourth.img")
    acts.act(f"Detach {world.dir}/fourth.img", confirm="tank", verb="Detach", said="is detached")
    acts.act("Clear failures", verb="Clear", said="are cleared")
    acts.act("Export the pool", check=["Unmount what"], confirm="tank", verb="Export", said="tank is exported.", in_history=False)
    browser.find("heading", "Pools")
    assert "tank" not in world.run("pool", "list", "-H")
    acts.act("Import a pool", fill=[("Name of the pool", "tank"), ("Where its devices", world.dir)], verb="Import", said="tank is imported.", in_history=False)
    browser.find("link", "tank")
