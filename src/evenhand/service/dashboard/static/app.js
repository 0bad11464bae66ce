// Frame of the dashboard: the selected stream, the state of the connection, and the user.

import { Live } from "/assets/live.js";
import { ask, calmly, count, fill, fraction, h, many, moment, put, say, share } from "/assets/page.js";
import { GeneratorPage, urgent } from "/assets/generator.js";
import { ShieldPage, biasSpark } from "/assets/shield.js";

const main = document.getElementById("main");
const known = { streams: [], models: {}, monitors: [], caller: {} };
const standings = new Map();
let shown = null;
let first = true;
let making = false;

const live = new Live(heard, connection);

begin();

async function begin() {
  try {
    Object.assign(known, (await ask("/v1/dashboard")).said);
  } catch (error) {
    connection("lost", error.message);
    fill(main, h("p", {}, "The service does not respond. This page retries automatically."));
    setTimeout(begin, 2_000);
    return;
  }
  const { caller } = known;
  document.getElementById("leave").hidden = !caller.key;
  say(document.getElementById("who"), caller.key ? caller.name : "");
  navigation();
  addEventListener("hashchange", route);
  await route();
  live.start(Object.fromEntries(known.streams.map((one) => [one.name, one.number])));
}

function navigation() {
  fill(
    document.getElementById("streams"),
    h("li", {}, h("a", { href: "#/" }, "All streams")),
    known.streams.map((one) => h("li", {}, h("a", { href: address(one.name) }, one.name, h("span", { class: "what" }, one.kind === "shield" ? "shield" : "generator")))),
    known.monitors.map((name) => h("li", {}, h("a", { href: monitorAddress(name) }, name, h("span", { class: "what" }, "monitor")))),
  );
}

const monitorAddress = (name) => `/monitors/${encodeURIComponent(name)}`;
const address = (name) => `#/${encodeURIComponent(name)}`;

async function route() {
  const name = decodeURIComponent(location.hash.slice(2));
  const stream = known.streams.find((one) => one.name === name);
  shown?.close();
  for (const link of document.querySelectorAll("#streams a")) {
    if (link.getAttribute("href") === (stream ? address(name) : "#/")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = stream ? `${name} - Evenhand` : "Evenhand";
  if (!stream) {
    shown = new Overview();
  } else {
    const Page = stream.kind === "shield" ? ShieldPage : GeneratorPage;
    shown = new Page(stream, { model: known.caller.generate ? known.models[name] : undefined });
  }
  fill(main, shown.element);
  if (!first) main.focus({ preventScroll: true });
  first = false;
  scrollTo(0, 0);
  const page = shown;
  main.setAttribute("aria-busy", "true");
  await page.load();
  if (page === shown) main.setAttribute("aria-busy", "false");
  if (making) document.getElementById("prompt")?.focus();
  making = false;
}

function heard(news) {
  let stream = known.streams.find((one) => one.name === news.stream);
  if (!stream) {
    // Another replica has just started to serve it.
    ask("/v1/dashboard").then(({ said }) => { known.streams = said.streams; navigation(); });
    return;
  }
  stream.number = news.number;
  if (news.rows.length) stream.at = news.rows.at(-1).at;
  shown?.heard(news);
}

function connection(state, text) {
  const link = document.getElementById("link");
  const lost = document.getElementById("lost");
  const words = { live: "live", lost: "connection lost", store: "the store does not respond" };
  link.dataset.state = state;
  say(link, words[state]);
  if (state === "live") {
    lost.hidden = true;
    say(lost, "");
  } else if (lost.hidden || lost.dataset.state !== state) {
    // The store may not respond after a lost connection: the time of the first failure is kept.
    if (lost.hidden) lost.dataset.since = moment(Date.now() / 1000);
    lost.dataset.state = state;
    say(lost, `${state === "lost" ? "The connection to the service is lost" : "The service cannot read its store"} since ${lost.dataset.since}${text ? `: ${text}` : ""}. The page may be out of date. It retries automatically, and then shows everything that it missed.`);
    lost.hidden = false;
  }
}

/** Summary of every stream. */
class Overview {
  constructor() {
    this.cards = h("ul", { class: "cards" });
    this.element = h("div", {}, h("h1", {}, "All streams"), known.streams.length || known.monitors.length ? this.cards : h("p", {}, "There is no shield, no guarded generator and no monitor. Add one to the service's file."));
    this.places = new Map();
    this.due = new Map();
    for (const stream of known.streams) {
      const text = h("div", {});
      this.places.set(stream.name, text);
      this.due.set(stream.name, calmly(1_000, () => this.#read(stream)));
      put(this.cards, h("li", { class: "card" }, h("h2", {}, h("a", { href: address(stream.name) }, stream.name)), text));
    }
    for (const name of known.monitors) {
      const text = h("div", {});
      this.places.set(name, text);
      put(this.cards, h("li", { class: "card" }, h("h2", {}, h("a", { href: monitorAddress(name) }, name)), text));
    }
    this.again = known.monitors.length ? setInterval(() => this.#readMonitors(), 5_000) : null;
  }

  async load() {
    await Promise.all([...known.streams.map((stream) => this.#read(stream)), this.#readMonitors()]);
  }

  async #readMonitors() {
    if (!known.monitors.length) return;
    try {
      for (const one of (await ask("/v1/monitors")).said.monitors) {
        if (this.places.has(one.name)) fill(this.places.get(one.name), monitorCard(one));
      }
    } catch (error) {
      for (const name of known.monitors) fill(this.places.get(name), h("p", { class: "wrong" }, error.message));
    }
  }

  async #read(stream) {
    try {
      standings.set(stream.name, (await ask(`/v1/dashboard/streams/${encodeURIComponent(stream.name)}`)).said);
    } catch (error) {
      fill(this.places.get(stream.name), h("p", { class: "wrong" }, error.message));
      return;
    }
    const stands = standings.get(stream.name);
    fill(this.places.get(stream.name), stream.kind === "shield" ? shieldCard(stands) : generatorCard(stands, known.models[stream.name]),
      stream.at ? h("p", { class: "note" }, `last entry ${moment(stream.at)}`) : null);
  }

  heard(news) {
    this.due.get(news.stream)?.();
  }

  close() {
    clearInterval(this.again);
  }
}

function monitorCard(stands) {
  return [
    h("p", {}, `Monitor${stands.shield ? ` of the shield ${stands.shield}` : ""}: `, stands.alarms ? h("strong", {}, many(stands.alarms, "alarm")) : "no alarm"),
    h("p", {}, `${many(stands.decisions, "decision")}${stands.labels ? `, ${many(stands.labels, "label")}` : ""}.`),
  ];
}

function shieldCard(stands) {
  const about = stands.certificate;
  if (!stands.number) return [h("p", {}, "Shield: no decision yet.")];
  const kappa = fraction(about.kappa);
  return [
    h("p", {}, `Shield: bias ${share(about.bias)}, allowed ${share(kappa)}`, about.bias > kappa ? ` (above the bound after ${count(about.step)} of ${count(about.horizon)} decisions)` : ""),
    biasSpark(stands.spark, kappa),
    h("p", {}, `${many(stands.interventions, "intervention")}${about.advisory ? " advised, none made" : ""}.`),
    stands.guarantee.map(([, words]) => h("p", {}, words)),
  ];
}

function generatorCard(stands, model) {
  const broken = stands.specifications.reduce((sum, one) => sum + one.counts.missed, 0);
  return [
    h("p", {}, "Guarded generator: ", broken ? h("strong", {}, many(broken, "deadline") + " missed") : "no deadline was missed"),
    h("p", {}, "Due next:"),
    h("ul", { class: "plain" }, stands.specifications.map((one) => h("li", {}, `${one.name}: ${urgent(one)}`))),
    model && known.caller.generate ? h("p", {}, h("a", { href: address(stands.name), class: "button", click: () => { making = true; } }, "Generate a picture")) : null,
  ];
}
