// Does six jobs with the types that openapi-typescript made, through openapi-fetch.
//
//     node six_jobs.js ADDRESS TOKEN
//
// NODE_EXTRA_CA_CERTS names the certificate that the client trusts. The pool is `tank`.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [baseUrl, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const header = { "X-Strongroom": "1" } as const;

/** The value of an answer that has to say that it is done. */
function done<T>(answer: { data?: T; error?: unknown; response: Response }): T {
    assert.equal(answer.response.status, 200, JSON.stringify(answer.error));
    return answer.data as T;
}

function job(number: number, text: string) {
    console.log(`job ${number}: ${text}`);
}

// 1. The state of the pools.
const pools = done(await client.GET("/v1/pools"));
assert.deepEqual(pools.map((pool) => [pool.name, pool.health]), [["tank", "ONLINE"]]);
job(1, "pools");

// 2. An encrypted dataset, whose passphrase goes with the request; its key is unloaded, and loaded again.
const secrets = [{ secret: "correct horse battery" }];
const created = done(
    await client.POST("/v1/commands/create", {
        params: { header },
        body: {
            name: "tank/typed",
            props: [["encryption", "on"], ["keysource", "passphrase,prompt"]],
            no_mount: true,
            secrets,
        },
    }),
);
assert.deepEqual([created.kind, created.value], ["names", ["tank/typed"]]);
const names = ["tank/typed"];
done(await client.POST("/v1/commands/key-unload", { params: { header }, body: { names } }));
const refused = await client.POST("/v1/commands/key-load", { params: { header }, body: { names } });
assert.equal(refused.response.status, 428);
assert.equal(refused.error?.error.ask?.dataset, "tank/typed");
done(await client.POST("/v1/commands/key-load", { params: { header }, body: { names, secrets } }));
job(2, "an encrypted dataset and its key");

// 3. A property.
done(
    await client.POST("/v1/commands/set", { params: { header }, body: { names, props: [["compression", "zstd-3"]] } }),
);
const rows = done(await client.GET("/v1/datasets", { params: { query: { name: names, properties: "compression" } } }));
assert.equal(rows[0].properties["compression"].value, "zstd-3");
job(3, "a property");

// 4. A snapshot.
done(await client.POST("/v1/commands/snapshot", { params: { header }, body: { names: ["tank/typed@one"] } }));
const snapshots = done(await client.GET("/v1/snapshots", { params: { query: { name: names } } }));
assert.deepEqual(snapshots.map((row) => row.name), ["tank/typed@one"]);
job(4, "a snapshot");

// 5. A stream of it.
const what = { snapshot: { name: "tank/typed@one", from: null } };
const stream = await client.POST("/v1/commands/send", {
    params: { header },
    body: { what, raw: true },
    parseAs: "arrayBuffer",
});
assert(done(stream).byteLength > 0);
job(5, "a stream");

// 6. A scrub among the jobs, and a look at what a destroy would take away.
done(await client.POST("/v1/commands/pool-scrub", { params: { header }, body: { pool: "tank" } }));
const jobs = done(await client.GET("/v1/jobs"));
assert(jobs.some((row) => row.id === "tank/scrub"));
const doomed = done(
    await client.POST("/v1/commands/destroy", {
        params: { header },
        body: { name: "tank/typed", recursive: true, dry_run: true },
    }),
);
assert(doomed.kind === "doomed" && doomed.value.destroyed.includes("tank/typed"));
job(6, "a scrub, and what would be destroyed");
