// One dialog for every act: fields, the equivalent command, and a name to type where something could be lost.
//
// An act is `{title(c), text(c), verb, isDanger, fields(c), asks(v, c), words(v, c), request(v, c), confirm(c),
// preview(v, c), done(v, c, reply), next(v, c), tell(reply)}`. `c` is what it is about, `v` has the values of its fields.
// `asks` are secrets that will be asked for, `words` the command after `strongroom`, `request` a name and a body,
// `preview` a request that only says what would go; with `looked(value)` it only says what would be done. `picture(v, c)`
// shows what will be. An act with `isLong` goes on when its dialog is closed. The daemon may ask for further secrets.
//
// Where the command line would need `-f`, the failure has a button that does the same, if there is a field `force`.

import { command, Failure } from "./api.js";
import { commandLine } from "./characters.js";
import { bytes } from "./format.js";
import { icon, mark } from "./icons.js";
import { h, name, render, visible } from "./view.js";

const HINTS = {
  passphrase: "Passphrase",
  hex: "Key, 64 hexadecimal digits",
  pin: "PIN of the token",
  "key-file": "Key file",
};

/**
 * Opens acts in `host`. Calls `onDone(message, next)` after each that succeeded, `onFailed(message)` if one failed whose
 * dialog is closed, and `onLogin` if the session is over.
 */
export class Dialogs {
  #host;
  #dialog = null;
  #onDone;
  #onFailed;
  #onLogin;
  #timer = null;

  constructor(host, onDone, onFailed, onLogin) {
    this.#host = host;
    this.#onDone = onDone;
    this.#onFailed = onFailed;
    this.#onLogin = onLogin;
  }

  open(act, context) {
    const values = {};
    for (const field of act.fields?.(context) ?? []) values[field.name] = field.value ?? (field.kind === "check" ? false : "");
    this.now = { act, context, values, extra: [], secrets: {}, typed: "", failure: null, busy: false, preview: null, told: null };
    this.#draw();
    this.#dialog.showModal();
    const first = this.#dialog.querySelector("input, select, textarea") ?? this.#dialog.querySelector("footer button");
    first?.focus();
    this.#look();
  }

  close() {
    this.#dialog?.close();
  }

  /** The secrets that the dialog has fields for. */
  get #asks() {
    const { act, values, context, extra } = this.now;
    return [...(act.asks?.(values, context) ?? []), ...extra];
  }

  /** Forgets the dialog, and with it the secrets that were typed. */
  #closed() {
    clearTimeout(this.#timer);
    this.now = null;
    this.#dialog = null;
    render(this.#host);
  }

  #draw() {
    if (!this.now) return;
    const { act, context, values, failure, busy, told } = this.now;
    if (told) return this.#tell(told);
    const target = act.confirm?.(context);
    const fields = (act.fields?.(context) ?? []).filter((field) => !field.when || field.when(values));
    const line = commandLine(["strongroom", ...act.words(values, context)]);
    render(
      this.#host,
      h(
        "dialog",
        { "aria-labelledby": "dialog-title", on: { close: () => this.#closed() } },
        h(
          "form",
          { method: "dialog", autocomplete: "off", on: { submit: (event) => this.#submit(event) } },
          h(
            "div",
            { class: "inside" },
            h("h2", { id: "dialog-title" }, act.title(context)),
            act.text && [act.text(context)].flat().map((text) => h("p", {}, text)),
            fields.map((field) => this.#field(field)),
            this.#asks.map((ask, i) => this.#secret(ask, i)),
            act.picture?.(values, context),
            this.#preview(),
            target && this.#confirm(target),
            h(
              "div",
              { class: "command", key: "command" },
              h("header", {}, h("span", { id: "command-title" }, "The same on the command line"), copyButton(line)),
              h("pre", { tabindex: 0, role: "group", "aria-labelledby": "command-title" }, line),
            ),
            busy && act.isLong && h("p", { role: "status", key: "goes-on" }, act.isLong),
            failure && h("div", { class: "notice bad", role: "alert", key: "failure" }, mark("bad"), h("div", {}, h("p", {}, visible(failure)), this.#force(failure))),
          ),
          h(
            "footer",
            {},
            h("button", { type: "button", class: "button", on: { click: () => this.close() } }, busy ? "Close" : "Cancel"),
            h(
              "button",
              { type: "submit", class: act.isDanger ? "button danger" : "button main", disabled: busy || (target !== undefined && this.now.typed !== target) },
              busy ? "One moment…" : act.verb,
            ),
          ),
        ),
      ),
    );
    this.#dialog = this.#host.firstElementChild;
  }

  /** What an act returned that is shown only once. */
  #tell({ title, text, secret }) {
    const shown = visible(secret);
    render(
      this.#host,
      h(
        "dialog",
        { "aria-labelledby": "dialog-title", on: { close: () => this.#closed() } },
        h(
          "form",
          { method: "dialog" },
          h(
            "div",
            { class: "inside" },
            h("h2", { id: "dialog-title" }, title),
            h("p", {}, text),
            h("div", { class: "command" }, h("header", {}, h("span", {}, "Shown once"), copyButton(shown)), h("pre", { tabindex: 0, role: "group", "aria-label": title }, shown)),
          ),
          h("footer", {}, h("button", { type: "submit", class: "button main" }, "Close")),
        ),
      ),
    );
  }

  /** What the command line does with `-f`, where the failure names that. */
  #force(failure) {
    const { act, context, values } = this.now;
    const force = act.fields?.(context).find((field) => field.name === "force");
    if (!force || values.force || !/ -f\b/.test(failure)) return null;
    const go = () => {
      values.force = true;
      this.#dialog.querySelector("form").requestSubmit();
    };
    return h("div", { class: "force" }, h("p", {}, `With force: ${force.label[0].toLowerCase()}${force.label.slice(1)}.`), force.hint && h("p", {}, force.hint), h("button", { type: "button", class: "button danger", on: { click: go } }, "Force"));
  }

  #field(field) {
    const { values } = this.now;
    const id = `field-${field.name}`;
    const set = (value) => {
      values[field.name] = value;
      this.#draw();
      this.#look();
    };
    const common = { id, name: field.name, required: field.required, "aria-describedby": field.hint ? `${id}-hint` : null };
    const hint = field.hint && h("span", { class: "hint", id: `${id}-hint` }, field.hint);
    if (field.kind === "check") {
      return h("div", { class: "field check", key: field.name }, h("input", { ...common, type: "checkbox", props: { checked: values[field.name] }, on: { change: (event) => set(event.target.checked) } }), h("label", { for: id }, field.label), hint);
    }
    let input;
    if (field.kind === "select") {
      input = h(
        "select",
        { ...common, props: { value: values[field.name] }, on: { change: (event) => set(event.target.value) } },
        field.options.map(([value, label]) => h("option", { value }, visible(label))),
      );
    } else if (field.kind === "lines") {
      input = h("textarea", { ...common, rows: 4, spellcheck: "false", autocapitalize: "none", placeholder: field.placeholder, props: { value: values[field.name] }, on: { input: (event) => set(event.target.value) } });
    } else {
      const isSecret = field.kind === "secret";
      input = h("input", {
        ...common,
        type: isSecret ? "password" : "text",
        autocomplete: isSecret ? "new-password" : "off",
        spellcheck: "false",
        autocapitalize: "none",
        placeholder: field.placeholder,
        inputmode: field.inputmode,
        list: field.suggestions ? `${id}-list` : null,
        props: { value: values[field.name] },
        on: { input: (event) => set(event.target.value) },
      });
    }
    const list = field.suggestions && h("datalist", { id: `${id}-list` }, field.suggestions.map((value) => h("option", { value })));
    return h("div", { class: "field", key: field.name }, h("label", { for: id }, field.label), input, list, hint);
  }

  /** A secret that the daemon asks for. */
  #secret(ask, i) {
    const { secrets } = this.now;
    const label = HINTS[ask.format] ?? "Secret";
    const of = ["of ", name(ask.dataset)];
    if (ask.format === "key-file") {
      const take = async (event) => {
        const [file] = event.target.files;
        secrets[i] = file ? { base64: base64(new Uint8Array(await file.arrayBuffer())) } : undefined;
      };
      return h("div", { class: "field", key: `ask-${i}` }, h("label", { for: `ask-${i}` }, label, " ", of), h("input", { id: `ask-${i}`, type: "file", required: true, on: { change: take } }));
    }
    const typed = (which, text) => {
      secrets[i] = { ...secrets[i], [which]: text };
    };
    const isNew = ask.twice && ask.format === "passphrase";
    const input = (which, text, id) =>
      h("div", { class: "field", key: id }, h("label", { for: id }, text), h("input", { id, type: "password", required: true, minlength: isNew ? 8 : null, autocomplete: ask.twice ? "new-password" : "current-password", on: { input: (event) => typed(which, event.target.value) } }));
    return [
      input("secret", [ask.twice ? `New ${label.toLowerCase()}` : label, " ", of], `ask-${i}`),
      ask.twice && input("again", ["The same again, ", of], `again-${i}`),
    ];
  }

  #confirm(target) {
    return h(
      "div",
      { class: "field", key: "confirm" },
      h("label", { for: "confirm" }, "Type ", h("strong", {}, name(target)), " to confirm"),
      h("input", {
        id: "confirm",
        type: "text",
        autocomplete: "off",
        spellcheck: "false",
        autocapitalize: "none",
        props: { value: this.now.typed },
        on: {
          input: (event) => {
            this.now.typed = event.target.value;
            this.#draw();
          },
        },
      }),
    );
  }

  #preview() {
    const { preview } = this.now;
    if (!preview) return null;
    if (preview.told) return h("div", { class: "notice good", role: "status", key: "preview" }, mark("good"), h("p", {}, visible(preview.told)));
    if (preview.failure) return h("div", { class: "notice warn", key: "preview" }, mark("warn"), h("p", {}, visible(preview.failure)));
    const names = preview.names.slice(0, 8);
    return h(
      "div",
      { class: "notice warn", key: "preview" },
      mark("warn"),
      h(
        "div",
        {},
        h("p", {}, h("strong", {}, preview.names.length === 1 ? "This goes:" : `These ${preview.names.length} go:`)),
        h("ul", {}, names.map((each) => h("li", {}, name(each, "name mono"))), preview.names.length > names.length && h("li", {}, `and ${preview.names.length - names.length} more`)),
        preview.freed !== undefined && h("p", {}, `That frees ${bytes(preview.freed)}.`),
      ),
    );
  }

  /** Asks, soon after a change, what the act would do. */
  #look() {
    const now = this.now;
    if (!now?.act.preview) return;
    clearTimeout(this.#timer);
    const look = (now.looks = (now.looks ?? 0) + 1);
    this.#timer = setTimeout(async () => {
      const request = now.act.preview(now.values, now.context);
      let preview = null;
      try {
        const { value } = request ? await command(...request) : {};
        if (request) preview = now.act.looked ? { told: now.act.looked(value, now.values) } : { names: namesOf(value), freed: value?.freed };
      } catch (failure) {
        preview = { failure: failure.message };
      }
      // A later look says more.
      if (now.looks !== look) return;
      now.preview = preview;
      if (this.now === now) this.#draw();
    }, 150);
  }

  async #submit(event) {
    event.preventDefault();
    const now = this.now;
    if (now.busy) return;
    const asks = this.#asks;
    const different = asks.some((ask, i) => ask.twice && now.secrets[i]?.secret !== now.secrets[i]?.again);
    if (different) return this.#failed("the two entries differ");
    now.busy = true;
    now.failure = null;
    this.#draw();
    try {
      const [which, body] = now.act.request(now.values, now.context);
      const given = asks.map((ask, i) => ({ ...(ask.isExpected ? {} : { dataset: ask.dataset }), ...pick(now.secrets[i]) }));
      const reply = await command(which, given.length ? { ...body, secrets: given } : body);
      this.#succeeded(now, reply);
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      if (this.now !== now) {
        if (failure.kind === "login") return this.#onLogin();
        return this.#onFailed(`${now.act.title(now.context)}: ${failure.message}`);
      }
      now.busy = false;
      if (failure.kind === "secret-needed" && failure.ask) this.#ask(failure.ask);
      else if (failure.kind === "login") {
        this.close();
        this.#onLogin();
      } else this.#failed(failure.message);
    }
  }

  #succeeded(now, reply) {
    const { act, values, context } = now;
    const told = act.tell?.(reply, values, context);
    const isOpen = this.now === now;
    const message = [act.done?.(values, context, reply) ?? "Done.", ...(reply?.notices ?? [])].join(" ");
    if (told && isOpen) {
      now.told = told;
      now.secrets = {};
      this.#draw();
    } else if (isOpen) {
      this.close();
    }
    this.#onDone(message, isOpen ? act.next?.(values, context) : undefined);
  }

  #ask(ask) {
    const { extra } = this.now;
    const asks = this.#asks;
    const known = asks.findIndex((one) => one.format === ask.format && one.twice === ask.twice && (one.isExpected || one.dataset === ask.dataset));
    if (known < 0) extra.push(ask);
    if (known >= 0 || ask.again) this.#failed("this is not the right one; try again");
    this.#draw();
    this.#dialog.querySelector(`#ask-${known < 0 ? asks.length : known}`)?.focus();
  }

  #failed(message) {
    this.now.failure = message;
    this.#draw();
    this.#dialog.querySelector("[role=alert]")?.scrollIntoView({ block: "nearest" });
  }
}

function namesOf(value) {
  if (Array.isArray(value)) return value;
  return [...(value?.destroyed ?? []), ...(value?.later ?? [])];
}

function pick({ secret, base64 } = {}) {
  return base64 === undefined ? { secret: secret ?? "" } : { base64 };
}

function base64(bytes) {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

/** A button that copies text, which has no hidden character: it is the text that is shown. */
function copyButton(text) {
  return h("button", { type: "button", class: "button plain", on: { click: (event) => copy(event, text) } }, "Copy");
}

async function copy(event, text) {
  const button = event.currentTarget;
  await navigator.clipboard?.writeText(text).catch(() => {});
  button.textContent = "Copied";
}

/** A button that opens an act. */
export function actButton(label, open, { className = "button", picture } = {}) {
  return h("button", { type: "button", class: className, on: { click: open } }, picture && icon(picture), label);
}
