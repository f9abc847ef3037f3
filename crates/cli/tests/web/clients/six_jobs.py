"""Does six jobs with the client that openapi-python-client made.

    six_jobs.py ADDRESS AUTHORITY TOKEN

AUTHORITY is a file with the certificate that the client trusts. The client is the package strongroom_client in the
present directory. The pool is `tank`.
"""

import io
import ssl
import sys

from strongroom_client import AuthenticatedClient
from strongroom_client.api.daemon import get_jobs
from strongroom_client.api.datasets import create, destroy, get_datasets, set_
from strongroom_client.api.keys import key_load, key_status, key_unload
from strongroom_client.api.pools import get_pools, pool_scrub
from strongroom_client.api.snapshots import get_snapshots, snapshot
from strongroom_client.api.streams import receive, send
from strongroom_client import models
from strongroom_client.types import File

address, authority, token = sys.argv[1:]
trusted = ssl.create_default_context(cafile=authority)
client = AuthenticatedClient(base_url=address, token=token, verify_ssl=trusted)


def done(answer):
    """The value of an answer that has to say that it is done."""
    assert answer.status_code == 200, answer.content
    assert answer.parsed is not None, answer.content
    return answer.parsed


def job(number, text):
    print(f"job {number}: {text}", flush=True)


# 1. The state of the pools.
pools = done(get_pools.sync_detailed(client=client))
assert [(pool.name, pool.health) for pool in pools] == [("tank", "ONLINE")], pools
job(1, "pools")

# 2. An encrypted dataset, whose passphrase goes with the request; its key is unloaded, and loaded again.
secret = models.SecretsItem(secret="correct horse battery")
body = models.CreateBody(
    name="tank/data",
    props=[["encryption", "on"], ["keysource", "passphrase,prompt"]],
    no_mount=True,
    secrets=[secret],
)
created = done(create.sync_detailed(client=client, body=body))
assert (created.kind, created.value) == ("names", ["tank/data"]), created
done(key_unload.sync_detailed(client=client, body=models.KeyUnloadBody(names=["tank/data"])))
refused = key_load.sync_detailed(client=client, body=models.KeyLoadBody(names=["tank/data"]))
assert refused.status_code == 428, refused.content
assert refused.parsed.error.kind == "secret-needed", refused.parsed
assert refused.parsed.error.ask.dataset == "tank/data", refused.parsed
body = models.KeyLoadBody(names=["tank/data"], secrets=[secret])
done(key_load.sync_detailed(client=client, body=body))
keys = done(key_status.sync_detailed(client=client, body=models.KeyStatusBody(names=["tank/data"])))
assert keys.value[0].name == "tank/data", keys
job(2, "an encrypted dataset and its key")

# 3. A property.
body = models.SetBody(names=["tank/data"], props=[["compression", "zstd-3"]])
done(set_.sync_detailed(client=client, body=body))
rows = done(get_datasets.sync_detailed(client=client, name=["tank/data"], properties="compression"))
value = rows[0].properties["compression"]
assert (value.value, value.source) == ("zstd-3", "local"), value
job(3, "a property")

# 4. A snapshot.
made = done(snapshot.sync_detailed(client=client, body=models.SnapshotBody(names=["tank/data@one"])))
assert made.kind == "names", made
rows = done(get_snapshots.sync_detailed(client=client, name=["tank/data"]))
assert [row.name for row in rows] == ["tank/data@one"], rows
job(4, "a snapshot")

# 5. A stream of it, received under another name; first the size that it would have.
what = {"snapshot": {"name": "tank/data@one", "from": None}}
body = models.SendBody.from_dict({"what": what, "raw": True, "estimate": True})
estimate = done(send.sync_detailed(client=client, body=body))
assert [row.name for row in estimate.value] == ["tank/data@one"], estimate
body = models.SendBody.from_dict({"what": what, "raw": True})
# The answer is a stream or, of an estimate, JSON. The generator makes a function for the JSON only.
sent = client.get_httpx_client().request(**send._get_kwargs(body=body))
assert sent.status_code == 200 and sent.content, sent.content
stream = sent.content
got = receive.sync_detailed(client=client, body=File(payload=io.BytesIO(stream)), target="tank/copy")
assert done(got).value == ["tank/copy@one"] or done(got).kind == "names", got.content
job(5, "a stream")

# 6. A scrub among the jobs, and a look at what a destroy would take away.
done(pool_scrub.sync_detailed(client=client, body=models.PoolScrubBody(pool="tank")))
jobs = done(get_jobs.sync_detailed(client=client))
assert "tank/scrub" in [row.id for row in jobs], jobs
body = models.DestroyBody(name="tank/copy", recursive=True, dry_run=True)
doomed = done(destroy.sync_detailed(client=client, body=body))
assert doomed.kind == "doomed" and "tank/copy" in doomed.value.destroyed, doomed
job(6, "a scrub, and what would be destroyed")
