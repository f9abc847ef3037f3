// What can be done with exports, permissions and tokens.

/** `c` is `{volumes}`. */
export const exportNbd = {
  title: () => "Export over NBD",
  text: () => "Offers a volume as a network block device, for virtual machines, nbd-client and the like.",
  verb: "Export",
  fields: (c) => [
    { name: "device", label: "Volume", value: c.device ?? "", required: true, suggestions: c.volumes, hint: "A volume, or the path of a file or disk." },
    { name: "name", label: "Name of the export", placeholder: "as the volume" },
    { name: "listen", label: "Where to listen", placeholder: "a socket beside the daemon's", hint: "unix:PATH, or HOST:PORT, which needs certificates." },
    { name: "certificates", label: "Directory with certificates", required: true, when: (v) => v.listen !== "" && !v.listen.startsWith("unix:") },
    { name: "readOnly", label: "Clients cannot write", kind: "check" },
  ],
  words: (v) => ["nbd", "export", ...(v.name ? ["--name", v.name] : []), v.readOnly && "--read-only", ...(v.listen ? ["--listen", v.listen] : []), ...(certificates(v) ? ["--tls-certificates", certificates(v)] : []), v.device || "VOLUME"],
  request: (v) => ["nbd-export", { device: v.device, name: v.name || null, description: null, read_only: v.readOnly, listen: v.listen || null, tls_certificates: certificates(v) }],
  done: (v) => `${v.device} is exported.`,
};

function certificates(v) {
  return v.listen !== "" && !v.listen.startsWith("unix:") ? v.certificates || null : null;
}

/** `c` is `{volumes}`. */
export const exportIscsi = {
  title: () => "Export over iSCSI",
  text: () => "Offers a volume as a target. iSCSI has no encryption: use it on a network that you trust.",
  verb: "Export",
  fields: (c) => [
    { name: "device", label: "Volume", value: c.device ?? "", required: true, suggestions: c.volumes, hint: "A volume, or the path of a file or disk." },
    { name: "name", label: "Name of the target", placeholder: "made from the name of the volume" },
    { name: "portal", label: "Portal", placeholder: "port 3260 of this host only", hint: "ADDRESS:PORT" },
    { name: "initiators", label: "Initiators that may log in", placeholder: "all", hint: "Names, separated by spaces." },
    { name: "login", label: "Login", kind: "select", value: "chap", options: [["chap", "With a secret (CHAP)"], ["open", "Without: any initiator that reaches the portal"]] },
    { name: "chap", label: "User and the file with the secret", required: true, placeholder: "user=file:///etc/keys/chap", when: (v) => v.login === "chap" },
    { name: "readOnly", label: "Initiators cannot write", kind: "check" },
  ],
  words: (v) => [
    "iscsi",
    "export",
    ...(v.name ? ["--name", v.name] : []),
    v.readOnly && "--read-only",
    ...(v.portal ? ["--portal", v.portal] : []),
    ...initiators(v).flatMap((one) => ["--initiator", one]),
    ...(v.login === "chap" ? ["--chap", v.chap || "USER=LOCATION"] : ["--no-authentication"]),
    v.device || "VOLUME",
  ],
  request: (v) => [
    "iscsi-export",
    { device: v.device, name: v.name || null, read_only: v.readOnly, portal: v.portal || null, initiators: initiators(v), chap: v.login === "chap" ? [v.chap] : [], own_chap: null, open: v.login === "open" },
  ],
  done: (v) => `${v.device} is exported.`,
};

function initiators(v) {
  return v.initiators.split(/\s+/).filter(Boolean);
}

/** `c` is `{name, protocol}`, with `nbd` or `iscsi`. */
export const unexport = {
  title: () => "Take an export back",
  text: (c) => `Clients can no longer use ${c.name}.`,
  verb: "Take it back",
  isDanger: true,
  fields: () => [{ name: "force", label: "Also from clients that use it", kind: "check", hint: "They get errors for what they have not written yet." }],
  confirm: (c) => c.name,
  words: (v, c) => [c.protocol, "unexport", v.force && "--force", c.name],
  request: (v, c) => [`${c.protocol}-unexport`, { name: c.name, force: v.force }],
  done: (v, c) => `${c.name} is no longer exported.`,
};

/** `c` is `{target, number, initiator}`. */
export const endSession = {
  title: () => "End a session",
  text: (c) => `${c.initiator} loses its connection to ${c.target}. It may log in again.`,
  verb: "End it",
  isDanger: true,
  words: (v, c) => ["iscsi", "sessions", "--kick", String(c.number), c.target],
  request: (v, c) => ["iscsi-kick", { target: c.target, number: c.number }],
  done: (v, c) => `The session of ${c.initiator} has ended.`,
};

const COMMON = ["create", "destroy", "mount", "snapshot", "rollback", "clone", "hold", "release", "send", "receive", "key", "keychange", "diff", "allow"];

/** `c` is `{dataset}`. */
export const allow = {
  title: (c) => `Give permissions on ${c.dataset}`,
  text: () => "The users may then give these commands to the daemon. Loading keys and changing keys are separate permissions.",
  verb: "Allow",
  fields: () => [
    { name: "kind", label: "Whom", kind: "select", value: "user", options: [["user", "A user"], ["group", "The members of a group"], ["everyone", "Everyone"]] },
    { name: "who", label: "Name", required: true, when: (v) => v.kind !== "everyone" },
    { name: "permissions", label: "Permissions", required: true, placeholder: "snapshot,mount", hint: `Commas between them: ${COMMON.join(", ")}, or the name of a property.` },
    { name: "where", label: "Where", kind: "select", value: "both", options: [["both", "The dataset and everything below"], ["local", "The dataset only"], ["below", "Everything below only"]] },
  ],
  words: (v, c) => ["allow", scopeFlag(v.where), ...whoWords(v.kind, v.who), v.permissions.replaceAll(" ", "") || "PERMISSIONS", c.dataset],
  request: (v, c) => ["change-permissions", { name: c.dataset, remove: false, who: [v.kind === "everyone" ? "everyone" : v.who], kind: v.kind, permissions: list(v.permissions), local: v.where !== "below", below: v.where !== "local" }],
  done: (v, c) => `The permissions on ${c.dataset} have changed.`,
};

/** `c` is a row of permissions. */
export const unallow = {
  title: (c) => `Take permissions on ${c.dataset} away`,
  text: (c) => `${c.name || "Everyone"} may no longer do this: ${c.permissions.join(", ")}.`,
  verb: "Take them away",
  isDanger: true,
  words: (v, c) => ["unallow", scopeFlag(SCOPES[c.scope]), ...whoWords(c.kind, c.name), c.permissions.join(","), c.dataset],
  request: (v, c) => ["change-permissions", { name: c.dataset, remove: true, who: [c.kind === "everyone" ? "everyone" : c.name], kind: c.kind, permissions: c.permissions, local: SCOPES[c.scope] !== "below", below: SCOPES[c.scope] !== "local" }],
  done: (v, c) => `The permissions on ${c.dataset} have changed.`,
};

const SCOPES = { local: "local", descendent: "below", "local+descendent": "both" };

function scopeFlag(where) {
  return { local: "-l", below: "-d" }[where] ?? null;
}

function whoWords(kind, who) {
  if (kind === "everyone") return ["-e"];
  return [kind === "group" ? "-g" : "-u", who || "NAME"];
}

function list(text) {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** Makes a token for a program or a browser. */
export const createToken = {
  title: () => "Create a token",
  text: () => "A program or a browser that shows the token has the rights of its user.",
  verb: "Create",
  fields: () => [
    { name: "label", label: "What it is for", value: "", required: true, placeholder: "laptop" },
    { name: "user", label: "User", placeholder: "you" },
    { name: "days", label: "Days until it expires", value: "30", inputmode: "numeric", required: true },
  ],
  words: (v) => ["web", "token", "create", ...(v.user ? ["--user", v.user] : []), "--expires", `${v.days}d`, v.label || "LABEL"],
  request: (v) => ["token-create", { user: v.user || null, label: v.label, expires: Math.round(Number(v.days) * 86400) || v.days }],
  done: (v) => `The token for ${v.label} was created.`,
  tell: (reply) => ({ title: "The new token", text: "Copy it now. It is stored only as a hash, and cannot be shown again.", secret: reply.value.token }),
};

/** `c` is a row of tokens. */
export const revokeToken = {
  title: () => "Revoke a token",
  text: (c) => `What uses the token ${c.label || c.id} of ${c.user} is refused from now on.`,
  verb: "Revoke",
  isDanger: true,
  words: (v, c) => ["web", "token", "revoke", c.id],
  request: (v, c) => ["token-revoke", { id: c.id }],
  done: () => "The token was revoked.",
};
