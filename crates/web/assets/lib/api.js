// Requests to the server, and their failures.

/** Why a request failed: `kind` is a word of the protocol, `message` a line that the command line would print too. */
export class Failure extends Error {
  constructor(kind, message, ask) {
    super(message);
    this.kind = kind;
    this.ask = ask;
  }
}

/** The value of a resource. */
export function get(path) {
  return send("GET", path);
}

/** Has a command done; returns `{kind, value, notices}`. */
export function command(name, body) {
  return send("POST", `/v1/commands/${name}`, body);
}

/** Exchanges a token for a session. */
export function logIn(token) {
  return send("POST", "/v1/session", { token });
}

/** Exchanges the code of a link for a session. */
export function openLink(code) {
  return send("POST", "/v1/session", { code });
}

/** Ends the session. */
export function logOut() {
  return send("DELETE", "/v1/session", {});
}

async function send(method, path, body) {
  const request = { method, headers: { Accept: "application/json" }, cache: "no-store", redirect: "error" };
  if (body !== undefined) {
    request.headers["Content-Type"] = "application/json";
    request.headers["X-Strongroom"] = "1";
    request.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, request);
  } catch {
    throw new Failure("offline", "the server cannot be reached");
  }
  const answer = await json(response);
  if (response.ok) return answer;
  const { kind = "other", message = `the server answered ${response.status}`, ask } = answer?.error ?? {};
  throw new Failure(response.status === 401 ? "login" : kind, message, ask);
}

async function json(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

/** A path with a query; values that are lists are repeated, those that are absent left out. */
export function query(path, values) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const each of [value].flat()) {
      if (each !== undefined && each !== null) search.append(name, String(each));
    }
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}
