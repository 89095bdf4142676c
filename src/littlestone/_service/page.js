"use strict";
const by = (id) => document.getElementById(id);
const count = (number) => number.toLocaleString("en-US");
const rounds = (number) => `${count(number)} ${number === 1 ? "round" : "rounds"}`;
const SHOWN = 50;
// Of the learner at this path: a browser shares these names among all pages of a host.
const PLACE = location.pathname === "/" ? "" : ` of ${location.pathname}`;
const SEEN = `littlestone: last event${PLACE}`;
const TOKEN = `littlestone: operator${PLACE}`;
const EVENTS = `littlestone: events${PLACE}`;
const AGAIN = 3000;
const now = { releases: [], rounds: 0, guarantee: null, evidence: null };
const STEPS = [.001, .002, .005, .01, .02, .03, .05, .1, .15, .2, .3, .4, .5, .6, .8, 1];
const ended = () => now.guarantee !== null && now.rounds >= now.guarantee.horizon;
// A finished table is learned at once: nothing in it came before anything else.
const isTable = () => now.guarantee !== null && now.guarantee.table;
const none = () => `no cause ${now.releases.length > 1 ? "stands now" : ended() ? "was published" : "is published"}`;

// Text from the data is only ever text; what does not print is shown instead of obeyed.
const visible = (text) =>
  text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
const put = (id, text) => { if (by(id).textContent !== text) by(id).textContent = text; };
// What has not changed is not replaced: a selection, a focus and a screen reader's place stay.
function replace(id, ...parts) {
  const next = by(id).cloneNode(false);
  next.append(...parts);
  if (!next.isEqualNode(by(id))) by(id).replaceChildren(...next.childNodes);
}
function made(name, text = "", kind = "") {
  const found = document.createElement(name);
  found.textContent = text;
  if (kind) found.className = kind;
  return found;
}
const ruled = (sentence) => { const code = made("code"); code.append(made("bdi", visible(sentence))); return code; };
function fill(id, share) { by(id).style.width = `${100 * Math.min(1, Math.max(0, share || 0))}%`; }

async function asked(path, headers = {}) {
  const answer = await fetch(path, { headers, cache: "no-store" });
  if (!answer.ok) throw Object.assign(new Error(path), { status: answer.status });
  return answer.json();
}

function colours() {
  const found = new Map(), plain = new Set();
  for (const release of [...now.releases].reverse())
    if (release.rule.kind === "constant") plain.add(release.sentence);
    else if (!found.has(release.sentence)) found.set(release.sentence, `c${found.size % 6}`);
  for (const sentence of plain) found.set(sentence, "other");
  return found;
}
const percent = (rate) => // with a space that does not break
  rate === null ? "unknown" : rate === 0 || rate === 1 ? `${100 * rate}\u00a0%`
    : rate >= .001 ? `${(100 * rate).toFixed(1)}\u00a0%` : `${Number((100 * rate).toPrecision(2))}\u00a0%`;
const hasCauses = () => Boolean(now.evidence && now.evidence.causes);
const standing = () => now.evidence.causes.filter((cause) => cause.standing);
function drawn(name, attributes) {
  const found = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  return found;
}
// A strip 1000 units wide; what it shows is also there as text, so a screen reader passes it over.
function strip(kind, ...parts) {
  const found = drawn("svg", { viewBox: "0 0 1000 20", preserveAspectRatio: "none", "aria-hidden": "true", class: kind });
  found.append(...parts);
  return found;
}
const bar = (kind, from, to, y = 0, height = 20) =>
  drawn("rect", { class: kind, x: from.toFixed(1), width: Math.max(0, to - from).toFixed(1), y, height });
const stood = (at) => {
  const next = now.releases[at + 1];
  return (next ? next.round : now.rounds + 1) - now.releases[at].round;
};

// Text of a rule with its label: "failed when version = '4.2.1'".
function worded(release) {
  const constant = release.rule.kind === "constant";
  const label = now.guarantee ? now.guarantee.label_words : "";
  if (hasCauses() && constant) return [`${visible(label || now.evidence.label)}:`, none()];
  // A cause with an outcome says itself what happens: "timeout when version = '4.2.1'".
  const outcomes = (release.rule.causes || []).some((cause) => cause.outcome !== undefined);
  return [constant || outcomes ? `${label}:` : `${label} when`, release.sentence].map(visible);
}

function causeItem(cause, most, long) {
  const line = made("li"), name = made("div", "", long ? "cause long" : "cause");
  name.append(ruled(cause.cause));
  line.append(name);
  const facts = made("p", "", "facts");
  const since = isTable() ? "" : ` Published since round ${count(cause.since)}.`;
  if (cause.rate === null) {
    facts.textContent = cause.events === null
      ? `${since} ${ended() ? "No rows are left to count." : "Counts follow when the first window of rounds has ended."}`
      : `${since} Too few events${ended() ? "" : " so far"} to estimate a rate.`;
    line.append(facts);
    return line;
  }
  const at = (rate) => Math.min(1000, (1000 * rate) / most);
  const rates = made("div", "", "rates"), low = at(cause.low), high = at(cause.high);
  const beaten = cause.to_beat;
  const mark = beaten === null ? [] : [drawn("path", { class: "least", d: `M${at(beaten).toFixed(1)},0 V20` })];
  rates.append(
    made("span", "its events"),
    strip("", bar("track", 0, 1000), bar("rate", 0, at(cause.rate), 3, 14),
      drawn("path", { class: "whisker", d: `M${low},10 H${high} M${low},5 V15 M${high},5 V15` }), ...mark),
    made("b", percent(cause.rate)));
  if (cause.base_rate !== null)
    rates.append(made("span", "all others"),
      strip("others", bar("track", 0, 1000), bar("rate", 0, at(cause.base_rate)), ...mark.map((part) => part.cloneNode())),
      made("b", percent(cause.base_rate), "others"));
  const times = !cause.lift ? "" : count(Number(cause.lift.toPrecision(2)));
  if (times && cause.low > cause.base_rate) { // not where noise may be all there is
    const lift = made("p", "as often as others", "lift");
    lift.setAttribute("aria-hidden", "true"); // the sentence below says it
    lift.prepend(made("b", `${times}×`));
    rates.append(lift);
  }
  const lift = times && `, ${times} times the rate of others`;
  facts.append(made("strong", `${percent(cause.rate)} of about ${count(cause.events)} ± ${count(cause.events_high - cause.events)} ${now.evidence.counted}`),
    ` (95\u00a0% interval ${percent(cause.low)} to ${percent(cause.high)})${lift}.${since}`);
  line.append(rates, facts);
  return line;
}

function drawCauses() {
  const shown = hasCauses();
  for (const id of ["causes", "timeline"]) by(id).hidden = !shown;
  by("band").hidden = shown;
  by("axis").hidden = shown && !now.evidence.causes.length;
  if (!shown) return;
  const found = standing();
  const known = found.filter((cause) => cause.rate !== null);
  const { base_rate: base, label } = now.evidence;
  const highest = Math.max(0, ...known.map((cause) => Math.max(cause.high, cause.base_rate || 0, cause.to_beat || 0)));
  const most = STEPS.find((step) => 1.1 * highest <= step) || 1;
  const long = found.some((cause) => cause.cause.length > 34);
  by("causes").hidden = found.length === 0;
  replace("causes", ...found.map((cause, place) => {
    const item = causeItem(cause, most, long);
    if (place) item.querySelector(".cause").prepend(made("i", "or "));
    return item;
  }));
  by("rule").classList.toggle("unseen", found.length > 0); // the list shows it, with its evidence
  const said = [];
  if (known.length) said.push(`Bars run from 0 to ${Number((100 * most).toPrecision(3))}\u00a0%, with the 95\u00a0% interval of the rate.`);
  if (known.length) said.push("Dashed: the rate that it had to beat.");
  if (known.length) said.push("Rates come from counts with noise, within the privacy budget below; what stands after ± is half the 95\u00a0% interval.");
  if (known.length > 1) said.push("Those come first that have most positives beyond the rate of all others.");
  if (!found.length && base !== null) said.push(`${ended() ? "The" : "So far the"} rate of ${visible(label)} is about ${percent(base)}.`);
  for (const line of [...now.evidence.remarks, now.evidence.why_that_rate]) said.push(`${line[0].toUpperCase()}${line.slice(1).replaceAll(" %", "\u00a0%")}.`);
  by("scale").hidden = false;
  by("scale").classList.toggle("why", !found.length);
  replace("scale", ...(found.length ? [said.join(" ")] : said).map((line) => made("p", line)));
  drawTimeline();
  drawRates();
  drawCosts();
}

function drawTimeline() {
  const long = Math.max(1, now.rounds);
  replace("timeline", ...now.evidence.causes.slice(0, SHOWN).map((cause) => {
    const line = made("li", "", cause.standing ? "" : "gone"), words = made("div");
    const spans = cause.spans.map(([from, to]) => `${count(from)} to ${to !== null ? count(to) : ended() ? "the end" : "now"}`);
    words.append(ruled(cause.cause), made("span", `${cause.standing ? "stands" : "dropped"}: rounds ${spans.join(", ")}`));
    const parts = cause.spans.map(([from, to]) => {
      const start = (1000 * (from - 1)) / long, stop = (1000 * (to === null ? long : to)) / long;
      return bar("stood", Math.min(start, 994), Math.max(stop, Math.min(start, 994) + 6));
    });
    line.append(words, strip("", bar("track", 0, 1000), ...parts));
    return line;
  }));
}

// The rate of each cause in one stretch of rounds after the other.
function drawRates() {
  const went = now.evidence.over_time;
  by("rates-head").hidden = !went;
  if (!went) return;
  const up = (rate) => (78 - 76 * Math.min(1, rate / went.top)).toFixed(1);
  const steps = (kind, points, place) => {
    let path = "", end = null;
    for (const point of points.filter((one) => one[place] !== null)) {
      path += `${point[0] === end ? "V" : `M${point[0]},`}${up(point[place])} H${point[1]} `;
      end = point[1];
    }
    return drawn("path", { class: kind, d: path });
  };
  replace("rates", ...went.lines.map(({ cause, words, points }) => {
    const line = made("li"), chart = drawn("svg", { viewBox: "0 0 1000 80", preserveAspectRatio: "none", "aria-hidden": "true" });
    chart.append(...points.map(([from, to, , low, high]) => bar("between", from, to, up(high), up(low) - up(high))),
      steps("others", points, 5), steps("ours", points, 2));
    line.append(ruled(cause), made("span", ` ${words}.`), chart);
    return line;
  }));
  put("rates-top", percent(went.top));
  put("rates-from", went.from);
  put("rates-to", went.to);
}

// What the causes cost beside publishing nothing, over the same rounds as the timeline.
function drawCosts() {
  const costs = hasCauses() ? now.evidence.costs : [];
  by("worth").hidden = costs.length < 3 || now.releases.length < 2;
  if (by("worth").hidden) return;
  const [, ours, nothing] = costs.at(-1), beaten = now.evidence.rate_to_beat;
  const most = Math.max(1, ...costs.map((sample) => Math.max(sample[1], sample[2])));
  const at = (place) => (sample) => `${((1000 * sample[0]) / Math.max(1, now.rounds)).toFixed(1)},${(138 - (134 * sample[place]) / most).toFixed(1)}`;
  const lines = [1, 2].map((place) => costs.map(at(place)));
  const path = (kind, points) => drawn("path", { class: kind, d: `M${points.join(" L")}` });
  replace("costs",
    path("saved", [...lines[0], ...[...lines[1]].reverse()]), path("nothing", lines[1]), path("ours", lines[0]));
  put("alarm", percent(beaten / (1 - beaten)));
  put("nothing", `about ${count(Math.round(nothing))}`);
  put("ours", `about ${count(Math.round(ours))}`);
  put("costs-to", rounds(now.rounds));
}

// What a release changed, from the rounds in which causes stood.
function moves(release) {
  const names = (kind, test) => now.evidence.causes.filter((cause) => cause.spans.some(test)).map((cause) => [kind, cause.cause]);
  return [
    ...names("added", ([from]) => from === release.round),
    ...names("dropped", ([, to]) => to !== null && to === release.round - 1),
  ];
}

function drawRule() {
  const last = now.releases.at(-1);
  if (!last) return;
  const [over, text] = worded(last);
  put("over", over);
  const rule = by("rule");
  if (rule.textContent !== text) {
    rule.replaceChildren(made("bdi", text));
    rule.classList.toggle("long", text.length > 40);
    document.title = `${over} ${text} · littlestone`;
  }
  const since = last.since ? `, since ${new Date(last.since).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })}` : "";
  const length = rounds(Math.max(0, stood(now.releases.length - 1)));
  put("stood", isTable() ? !ended() ? "" : `Learned from a finished table of ${count(now.rounds)} rows.` : hasCauses()
    ? `${rounds(now.rounds)}${ended() ? ": all that were planned" : " so far"}${last.number === 1 ? "" : `; the causes changed last at round ${count(last.round)}${since.replace("since", "on")}`}.`
    : `It has stood for ${length}, from round ${count(last.round)}${since}.`);
  put("rounds", rounds(now.rounds));
  drawCauses();
}

function drawRules() {
  const colour = colours();
  const shown = now.releases.slice(-SHOWN);
  const first = now.releases.length - shown.length;
  const band = shown.map((release, at) => {
    const piece = made("i", "", colour.get(release.sentence));
    piece.style.flexGrow = Math.max(1, stood(first + at));
    piece.title = visible(release.sentence);
    return piece;
  });
  replace("band", ...band);
  by("band").setAttribute("aria-label", `${count(now.releases.length)} rules by the rounds they stood; listed below`);
  const lines = shown.map((release, at) => {
    const line = made("li");
    const length = rounds(Math.max(0, stood(first + at)));
    const until = at === shown.length - 1 ? `stands for ${length}` : `stood for ${length}`;
    if (!hasCauses()) {
      line.append(made("i", "", `swatch ${colour.get(release.sentence)}`), ruled(release.sentence),
        made("span", `from round ${count(release.round)}, ${until}`));
      return line;
    }
    const changes = moves(release), what = made("div");
    for (const [move, cause] of changes) {
      const part = made("div");
      part.append(made("i", `${move} `, "move"), ruled(cause));
      what.append(part);
    }
    const text = release.number === 1 ? "begun, with no cause" : release.sentence;
    line.append(changes.length ? what : made("div", visible(text)), made("span", `from round ${count(release.round)}`));
    return line;
  });
  replace("releases", ...lines.reverse());
  by("earlier").hidden = first === 0;
  put("earlier", `and ${count(first)} earlier ones, at /releases`);
}

function drawGuarantee(spent) {
  const said = now.guarantee;
  if (!said) return;
  put("class", visible(said.class));
  put("guarantee", said.guarantee);
  if (by("words").childElementCount !== said.words.length)
    replace("words", ...said.words.map((line) => made("li", line)));
  const show = (number) => Number(number.toPrecision(3)).toString();
  put("epsilon", said.epsilon === null ? "no limit" : show(said.epsilon));
  put("delta", show(said.delta));
  const left = Math.max(0, said.horizon - now.rounds);
  for (const part of document.querySelectorAll(".of-stream")) part.hidden = said.table;
  put("left", count(left));
  put("left-of", `${left === 1 ? "round" : "rounds"} left of the ${count(said.horizon)} planned for`);
  put("left-then", left ? "What stands after the last of them stays for good." : "What stands now stays for good.");
  fill("horizon-used", now.rounds / said.horizon);
  by("final").hidden = !spent.final || said.table;
  put("final", spent.final || "");
}

function add(release) {
  if (release.number !== now.releases.length + 1) return;
  now.releases.push(release);
  by("rule").classList.remove("new");
  void by("rule").offsetWidth;
  by("rule").classList.add("new");
  put("said", `A new rule is published: ${worded(release).join(" ")}`);
}

async function load() {
  now.guarantee = await asked("guarantee");
  now.rounds = now.guarantee.rounds;
  const found = [];
  for (let total = 1; found.length < total;) {
    const some = await asked(`releases?after=${found.length}`);
    total = some.total;
    found.push(...some.releases);
  }
  now.releases = found;
  now.evidence = await asked("evidence");
  drawRule();
  drawRules();
  drawGuarantee(now.guarantee);
}

function status(text, kind) {
  put("status", text);
  by("status").className = `status ${kind}`;
}
async function health() {
  const answer = await fetch("ready", { cache: "no-store" });
  if (answer.ok && ended()) status(isTable() ? "a finished table" : "ended: all planned rounds have passed", "");
  else if (answer.ok && isTable()) status("the table is not learned yet", "lost");
  else if (answer.ok) status("live", "live");
  else if (answer.status === 503) status(`no rounds are taken: ${(await answer.json()).error}`, "lost");
}

const refresh = () =>
  load().then(health).then(look).catch(() => status("connection lost: trying again", "lost"));

// A browser keeps six connections to a server, and a stream of events in every tab would use them
// up: so one tab listens, and tells the others. It is the one that holds the lock; when it is
// closed, the next one gets it.
const tabs = new BroadcastChannel(EVENTS);
tabs.onmessage = (event) => hear(event.data);
function tell(said) {
  tabs.postMessage(said);
  hear(said);
}
function hear({ name, data }) {
  if (name === "refresh") refresh();
  else if (name === "lost") status("connection lost: trying again", "lost");
  else if (name === "release") { add(data); drawRule(); drawRules(); }
  else if (name === "evidence") { now.evidence = data; drawRule(); drawRules(); }
  else {
    now.rounds = data.rounds;
    if (ended()) health().catch(() => {});
    drawRule();
    drawRules();
    drawGuarantee(data);
    if (data.releases === now.releases.length) look();
    else refresh(); // an event was missed
  }
}

// Where there are no locks (a page without TLS from another machine), each tab listens for itself,
// and only until it has heard the latest.
function listen(stay) {
  const say = stay ? tell : hear;
  const again = () => setTimeout(listen, AGAIN, stay);
  const seen = localStorage.getItem(SEEN);
  const source = new EventSource(seen ? `events?last=${encodeURIComponent(seen)}` : "events");
  source.onopen = () => say({ name: "refresh" });
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return say({ name: "lost" });
    say({ name: "refresh" }); // there is no stream to be had: ask, and try again
    again();
  };
  source.addEventListener("release", (event) => say({ name: "release", data: JSON.parse(event.data) }));
  source.addEventListener("evidence", (event) => say({ name: "evidence", data: JSON.parse(event.data) }));
  source.addEventListener("rounds", (event) => {
    if (event.lastEventId) localStorage.setItem(SEEN, event.lastEventId);
    say({ name: "rounds", data: JSON.parse(event.data) });
    if (stay) return;
    source.close();
    again();
  });
}

// The private side: only with the operator's token, which stays in this tab and goes in a header.
let looking = false;
async function look() {
  const token = sessionStorage.getItem(TOKEN);
  if (!token || looking) return;
  looking = true;
  try {
    drawInside(await asked("private/trace?samples=240", { Authorization: `Bearer ${token}` }));
    put("wrong", "");
    open_(true);
  } catch (error) {
    if (error.status === 401 || error.status === 403) {
      sessionStorage.removeItem(TOKEN);
      open_(false);
      put("wrong", "That is not the operator's token.");
    }
  }
  setTimeout(() => { looking = false; }, 1000);
}
function open_(wide) {
  by("form").hidden = wide;
  by("private").hidden = !wide;
  by("inside").classList.toggle("open", wide);
}
const share = (rate) => (rate === null ? "none yet" : `${(100 * rate).toPrecision(3)} %`);

function drawInside(seen) {
  const told = seen.missed !== null;
  const figures = {
    ...(told
      ? { "positives missed": count(seen.missed), "false alarms": `${count(seen.mistakes - seen.missed)}, which cost as much as ${count(Math.round(seen.cost - seen.missed))}` }
      : { "mistakes": count(seen.mistakes) }),
    ...(told ? {} : {
      "of the rounds that counted": share(seen.rate),
      "of the standing rule": `${count(seen.mistakes_of_rule)} (${share(seen.rate_of_rule)})`,
    }),
    "rows not readable": count(seen.unreadable),
    ...(seen.beyond_cap ? {"rounds beyond the cap": count(seen.beyond_cap)} : {}),
  };
  replace("figures", ...Object.entries(figures).map(([name, value]) => {
    const pair = made("div");
    pair.append(made("dt", name), made("dd", value));
    return pair;
  }));
  drawCurve(seen);
  by("votes-head").hidden = seen.voters === 0;
  replace("votes", ...seen.votes.map((vote) => {
    const line = made("li"), gauge = made("div", "", "gauge"), bar = made("i");
    bar.style.width = `${(100 * vote.votes) / Math.max(1, seen.voters)}%`;
    gauge.append(bar);
    line.append(ruled(vote.sentence), made("span", count(vote.votes)), gauge);
    return line;
  }));
  replace("ledger", ...seen.ledger.map((line) => {
    const row = made("tr");
    const names = { mechanism: "", times: "times used", each: "cost each", adds: "how it adds up" };
    row.append(...Object.entries(names).map(([field, name]) => {
      const cell = made("td", line[field]);
      cell.dataset.name = name; // on a phone each cell is a line of its own, with its name
      return cell;
    }));
    return row;
  }));
}

function drawCurve(seen) {
  const height = seen.missed === null ? seen.mistakes : Math.round(seen.cost);
  const most = Math.max(1, height), long = Math.max(1, seen.rounds);
  const changes = now.releases.slice(1).slice(-SHOWN).map((release) =>
    [`M${((600 * release.round) / long).toFixed(1)},0 V136`, "change"]);
  const at = (sample) => `${((600 * sample.round) / long).toFixed(1)},${(136 - (130 * sample.mistakes) / most).toFixed(1)}`;
  const line = ["0,136", ...seen.samples.map(at)].join(" L");
  const paths = [[`M${line} L600,136 Z`, "under"], [`M${line}`, "curve"], ...changes].map(([shape, kind]) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", shape);
    path.setAttribute("class", kind);
    return path;
  });
  by("curve").replaceChildren(by("curve-says"), ...paths);
  put("curve-head", seen.missed === null ? "Mistakes of the published rules" : "Cost of the published causes, in missed positives");
  put("curve-says", `${count(height)} ${seen.missed === null ? "mistakes" : "in missed positives"} in ${rounds(seen.rounds)}`);
  put("curve-top", count(height));
  put("curve-from", "round 1");
  put("curve-key", changes.length ? "dotted: a change of what is published" : "");
  put("curve-to", rounds(seen.rounds));
}

by("form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, by("token").value.trim());
  by("token").value = "";
  looking = false;
  look();
});
by("forget").addEventListener("click", () => {
  sessionStorage.removeItem(TOKEN);
  for (const id of ["figures", "votes", "ledger"]) by(id).replaceChildren();
  by("curve").replaceChildren(by("curve-says"));
  for (const id of ["curve-says", "curve-top", "curve-key", "curve-to"]) put(id, "");
  open_(false);
  by("token").focus();
});
refresh();
if (navigator.locks) navigator.locks.request(EVENTS, () => new Promise(() => listen(true)));
else listen(false);
setInterval(() => health().catch(() => {}), 30000);
