// Text goes into the page through textContent alone, so that it is never read as HTML.
"use strict";

function element(name, className, text) {
  const created = document.createElement(name);
  if (className) created.className = className;
  if (text !== undefined) created.textContent = text;
  return created;
}

// Text, or a row of words, that runs from right to left if its first letter does. Parts with a
// direction of their own do not count.
function textElement(name, className) {
  const created = element(name, className);
  created.dir = "auto";
  return created;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function alternativesTable(item) {
  const table = element("table");
  table.dir = "ltr";
  const head = table.insertRow();
  head.append(element("th", "", "replaced"), element("td", "", percent(item.probability)));
  for (const alternative of item.alternatives) {
    const row = table.insertRow();
    row.append(
      element("td", "", alternative.token),
      element("td", "", percent(alternative.probability)),
    );
  }
  return table;
}

function showTokens(answer, result) {
  if (!answer.tokens.length) {
    result.append(element("p", "hint", "The text has no tokens."));
    return;
  }
  const line = textElement("div", "tokens");
  for (const item of answer.tokens) {
    const isPiece = item.token.startsWith("##");
    const token = element("span", isPiece ? "token piece" : "token", item.token);
    // Its letters say nothing of the direction of the text.
    if (item.token === "[UNK]") token.dir = "ltr";
    token.tabIndex = 0;
    token.dataset.probability = item.probability.toFixed(4);
    token.style.backgroundColor = `rgba(220, 38, 38, ${item.probability.toFixed(3)})`;
    token.append(alternativesTable(item));
    line.append(token);
  }
  result.append(line);
  for (const event of ["pointerover", "focusin"]) {
    line.addEventListener(event, () => keepTablesInside(line));
  }
  if (answer.limit) {
    const said = `The model reads ${answer.limit} tokens. What follows them is not shown.`;
    result.append(element("p", "hint", said));
  }
  openMostSuspected(line);
}

// The most suspected token shows its table until another one is pointed at.
function openMostSuspected(line) {
  const tokens = [...line.querySelectorAll(".token")];
  const probability = (token) => Number(token.dataset.probability);
  const open = tokens.reduce((a, b) => (probability(b) > probability(a) ? b : a));
  open.classList.add("open");
  const close = () => open.classList.remove("open");
  for (const event of ["pointerover", "focusin"]) line.addEventListener(event, close);
  keepTablesInside(line);
}

// Moves tables that would exceed the window.
function keepTablesInside(line) {
  const width = document.documentElement.clientWidth;
  for (const table of line.querySelectorAll("table")) {
    table.style.translate = "";
    const { left, right } = table.getBoundingClientRect();
    const shift = Math.min(0, width - right) || Math.max(0, -left);
    if (shift) table.style.translate = `${shift}px`;
  }
}

function showScores(answer, result) {
  const chosen = answer.kind === "multilabel"
    ? new Set(answer.predicted_labels.slice(0, answer.num_predicted))
    : new Set([answer.label]);
  answer.labels.forEach((label, i) => {
    const bar = element("div", chosen.has(label) ? "bar best" : "bar");
    const meter = element("meter");
    meter.value = answer.scores[i];
    bar.append(element("span", "", label), meter, element("span", "", percent(answer.scores[i])));
    result.append(bar);
  });
}

function showChoices(answer, result) {
  answer.choices.forEach((choice, i) => {
    const bar = element("div", i === answer.index ? "bar best" : "bar");
    const meter = element("meter");
    meter.value = answer.scores[i];
    bar.append(element("span", "", choice), meter, element("span", "", percent(answer.scores[i])));
    result.append(bar);
  });
}

function showTags(answer, result) {
  if (!answer.num_words) {
    result.append(element("p", "hint", "The text has no words."));
    return;
  }
  const line = textElement("div", "tags");
  for (let i = 0; i < answer.num_words; i++) {
    const word = element("span", "tag", answer.words[i]);
    word.append(element("small", "", answer.tags[i] || "not read"));
    line.append(word);
  }
  result.append(line);
}

function showAnswer(answer, result, texts) {
  // Offsets count code points; strings of JavaScript count UTF-16 units.
  const points = Array.from(texts.context);
  const line = textElement("p", "answer");
  if (answer.start < 0) {
    line.textContent = "No answer.";
  } else {
    line.append(
      points.slice(0, answer.start).join(""),
      element("mark", "", points.slice(answer.start, answer.end).join("")),
      points.slice(answer.end).join(""),
    );
  }
  result.append(line);
}

function showTask(answer, result, texts) {
  if (answer.labels) showScores(answer, result);
  else if (answer.kind === "multiple_choice") showChoices(answer, result);
  else if (answer.kind === "tagging") showTags(answer, result);
  else if (answer.kind === "qa") showAnswer(answer, result, texts);
  else result.append(element("p", "score", answer.score.toFixed(3)));
  if (answer.full) {
    const said = `The model reads no more of: ${answer.full.join(", ")}. What exceeds its length is ignored.`;
    result.append(element("p", "hint", said));
  }
}

async function answerOf(url, texts, signal) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(texts),
    signal,
  }).catch(() => {
    throw new Error("The server does not answer. Is serve_demo.py still running?");
  });
  const answer = await response.json().catch(() => {
    throw new Error(`The server answered ${response.status} ${response.statusText}. Try again.`);
  });
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

// The request of each form; answers may arrive in another order.
const requests = new Map();

async function ask(form) {
  const result = form.querySelector(".result");
  const texts = Object.fromEntries(new FormData(form));
  requests.get(form)?.abort();
  const request = new AbortController();
  requests.set(form, request);
  result.replaceChildren(element("p", "hint", "Waiting for the answer …"));
  try {
    const answer = await answerOf(form.dataset.url, texts, request.signal);
    if (request.signal.aborted) return;
    result.replaceChildren();
    (form.dataset.show === "tokens" ? showTokens : showTask)(answer, result, texts);
  } catch (error) {
    if (request.signal.aborted) return;
    result.replaceChildren(element("p", "error", error.message));
  }
}

for (const form of document.forms) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(form);
  });
  // A link can carry its texts: /?text=... is asked at once.
  const given = new URLSearchParams(location.search);
  const fields = [...form.querySelectorAll("textarea")];
  if (fields.every((field) => given.has(field.name))) {
    for (const field of fields) field.value = given.get(field.name);
    ask(form);
  }
}
