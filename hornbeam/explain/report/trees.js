"use strict";
(() => {
  const data = JSON.parse(document.getElementById("tree-data").textContent);
  const byId = (id) => document.getElementById(id);
  const root = byId("tree-root"), about = byId("tree-about"), said = byId("tree-said");
  const treeInput = byId("tree-number"), roundInput = byId("tree-round");
  const outputInput = byId("tree-output"), rowInput = byId("tree-row");
  const FIRST_LEVELS = 3;
  const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
  let current = 0, tree = null, parents = [], depths = [], open = new Set();
  let way = new Set(), focused = 0, largest = 1;

  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const isLeaf = (node) => tree.y[node] < 0;
  const feature = (node) => data.features[tree.f[node]];
  const question = (node) => `${feature(node)} ${tree.q[node]}`;
  const values = (node) => (Array.isArray(tree.v[node]) ? tree.v[node] : [tree.v[node]]);
  const valueText = (node) => {
    const parts = values(node);
    if (parts.length === 1) return signed(parts[0]);
    const order = parts.map((value, k) => [value, k]).sort((a, b) => b[0] - a[0]);
    return `${data.outputs[order[0][1]]}: ${signed(order[0][0])}`;
  };
  const signed = (value) => (value > 0 ? "+" : "") + number.format(value).replace("-", "−");
  const answer = (node) => {
    const parent = parents[node];
    if (parent < 0) return "";
    const yes = tree.y[parent] === node;
    const missing = yes === Boolean(tree.m[parent]);
    return (yes ? "yes" : "no") + (missing ? ", missing" : "");
  };

  function read(at) {
    tree = data.trees[at];
    parents = tree.y.map(() => -1);
    depths = tree.y.map(() => 0);
    const waiting = [0];
    largest = 1e-12;
    while (waiting.length) {
      const node = waiting.pop();
      if (isLeaf(node)) {
        for (const value of values(node)) largest = Math.max(largest, Math.abs(value));
        continue;
      }
      for (const child of [tree.y[node], tree.n[node]]) {
        parents[child] = node;
        depths[child] = depths[node] + 1;
        waiting.push(child);
      }
    }
  }

  function show(at) {
    current = Math.min(Math.max(0, at), data.trees.length - 1);
    read(current);
    open = new Set(tree.y.map((_, node) => node).filter(
      (node) => !isLeaf(node) && depths[node] < FIRST_LEVELS));
    focused = 0;
    follow();
    treeInput.value = current;
    roundInput.value = data.rounds[current];
    if (outputInput) outputInput.value = String(data.of[current]);
    draw();
    tell(0);
    const leaves = tree.y.filter((child, node) => child < 0 && (node === 0 || parents[node] >= 0));
    said.textContent = `Tree ${current}, of round ${data.rounds[current]}` +
      (data.outputs.length && data.of[current] >= 0 ?
        `, adds to output ${data.outputs[data.of[current]]}` : "") +
      `: ${leaves.length} leaves, ${Math.max(...depths)} splits deep.`;
  }

  function follow() {
    way = new Set();
    const row = data.rows[Number(rowInput.value)];
    if (rowInput.value === "" || !row) return;
    for (let node = row.leaf[current]; node >= 0; node = parents[node]) {
      way.add(node);
      if (!isLeaf(node)) open.add(node);
    }
  }

  function draw() {
    root.replaceChildren(item(0));
    const target = elementOf(focused) || elementOf(0);
    target.tabIndex = 0;
  }

  function item(node) {
    const li = make("li");
    li.setAttribute("role", "treeitem");
    li.dataset.node = node;
    li.tabIndex = -1;
    const box = make("div", isLeaf(node) ? "node leaf" : "node");
    const from = answer(node);
    if (from) box.append(make("span", "answer", `${from}: `));
    const cover = `cover ${number.format(tree.c[node])}`;
    if (isLeaf(node)) {
      box.append(make("b", "", valueText(node)), make("small", "", cover));
      const top = values(node).reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0);
      const strength = 0.08 + 0.42 * Math.abs(top) / largest;
      box.style.background = `rgba(var(--${top < 0 ? "low" : "high"}), ${strength.toFixed(3)})`;
    } else {
      box.append(make("b", "", question(node)),
        make("small", "", `gain ${number.format(tree.g[node])} · ${cover}`));
      li.setAttribute("aria-expanded", String(open.has(node)));
    }
    li.setAttribute("aria-label", (from ? `${from}: ` : "") +
      (isLeaf(node) ? `leaf ${valueText(node)}` : question(node)) + `, ${cover}`);
    if (way.has(node)) li.classList.add("on");
    li.append(box);
    if (!isLeaf(node) && open.has(node)) {
      const group = make("ul");
      group.setAttribute("role", "group");
      group.append(item(tree.y[node]), item(tree.n[node]));
      li.append(group);
    }
    return li;
  }

  const elementOf = (node) => root.querySelector(`li[data-node="${node}"]`);

  function focus(node) {
    const before = elementOf(focused), now = elementOf(node);
    if (!now) return;
    if (before) before.tabIndex = -1;
    focused = node;
    now.tabIndex = 0;
    now.focus({ preventScroll: true });
    now.firstElementChild.scrollIntoView({ block: "nearest", inline: "nearest" });
    tell(node);
  }

  function toggle(node) {
    if (isLeaf(node)) return;
    if (open.has(node)) open.delete(node); else open.add(node);
    focused = node;
    draw();
    focus(node);
  }

  function tell(node) {
    const steps = [];
    for (let at = node; parents[at] >= 0; at = parents[at]) {
      steps.unshift(`${question(parents[at])}: ${answer(at)}`);
    }
    const share = steps.length && tree.c[0] > 0 ? ` (${(100 * tree.c[node] / tree.c[0]).toFixed(1)}% of the root's)` : "";
    const lines = [];
    if (isLeaf(node)) {
      const parts = values(node);
      lines.push(parts.length === 1 ? `Leaf: adds ${signed(parts[0])} to the margin.` :
        `Leaf: adds ${parts.map((v, k) => `${signed(v)} to ${data.outputs[k]}`).join(", ")}.`);
    } else {
      lines.push(`Split: ${question(node)}? Gain ${number.format(tree.g[node])}.`);
    }
    lines.push(`Cover ${number.format(tree.c[node])}${share}.`);
    if (steps.length) lines.push(`Reached by ${steps.join("; ")}.`);
    const row = rowInput.value === "" ? null : data.rows[Number(rowInput.value)];
    if (row && way.has(node) && isLeaf(node)) {
      lines.push(`Row ${row.n} comes to this leaf.`);
    } else if (row && !isLeaf(node)) {
      const value = row.x[tree.f[node]];
      lines.push(`Row ${row.n} has ${feature(node)} ${value === null ? "missing" : `= ${value}`}.`);
    }
    about.replaceChildren(...lines.map((line) => make("p", "", line)));
  }

  root.addEventListener("click", (event) => {
    const box = event.target.closest(".node");
    if (!box) return;
    const node = Number(box.parentElement.dataset.node);
    if (isLeaf(node)) focus(node); else toggle(node);
  });
  root.addEventListener("mouseover", (event) => {
    const box = event.target.closest(".node");
    if (box) tell(Number(box.parentElement.dataset.node));
  });
  root.addEventListener("mouseleave", () => tell(focused));
  root.addEventListener("keydown", (event) => {
    const shown = [...root.querySelectorAll("li")];
    const place = shown.findIndex((li) => Number(li.dataset.node) === focused);
    const at = (index) => shown[index] && focus(Number(shown[index].dataset.node));
    const keys = {
      ArrowDown: () => at(place + 1),
      ArrowUp: () => at(place - 1),
      Home: () => at(0),
      End: () => at(shown.length - 1),
      ArrowRight: () => {
        if (isLeaf(focused)) return;
        if (open.has(focused)) focus(tree.y[focused]); else toggle(focused);
      },
      ArrowLeft: () => {
        if (!isLeaf(focused) && open.has(focused)) toggle(focused);
        else if (parents[focused] >= 0) focus(parents[focused]);
      },
      Enter: () => toggle(focused),
      " ": () => toggle(focused),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });

  const treeOf = (round, output) => {
    const found = data.rounds.findIndex(
      (value, k) => value === round && (output === null || data.of[k] === output));
    return found < 0 ? data.rounds.indexOf(round) : found;
  };
  const chosenOutput = () => (outputInput ? Number(outputInput.value) : null);
  treeInput.addEventListener("change", () => show(Math.trunc(Number(treeInput.value)) || 0));
  roundInput.addEventListener("change", () => {
    const last = data.rounds[data.rounds.length - 1];
    const round = Math.min(Math.max(0, Math.trunc(Number(roundInput.value)) || 0), last);
    show(treeOf(round, chosenOutput()));
  });
  if (outputInput) {
    outputInput.addEventListener("change", () => show(treeOf(data.rounds[current], chosenOutput())));
  }
  rowInput.addEventListener("change", () => {
    follow();
    draw();
    const leaf = [...way][0] ?? focused;
    elementOf(leaf).firstElementChild.scrollIntoView({ block: "nearest", inline: "nearest" });
    tell(leaf);
  });
  byId("tree-before").addEventListener("click", () => show(current - 1));
  byId("tree-next").addEventListener("click", () => show(current + 1));
  byId("tree-open").addEventListener("click", () => {
    tree.y.forEach((child, node) => { if (child >= 0) open.add(node); });
    draw();
  });
  byId("tree-close").addEventListener("click", () => {
    open = new Set();
    focused = 0;
    draw();
    tell(0);
  });

  data.rows.forEach((row, k) => {
    const label = row.y === null ? "" : `, label ${[].concat(row.y).map((v) => number.format(v)).join(" ")}`;
    const predicted = row.p.map((p) => number.format(p)).join(" ");
    const option = make("option", "", `row ${row.n}${label}, predicted ${predicted}`);
    option.value = String(k);
    rowInput.append(option);
  });
  if (outputInput) {
    [...new Set(data.of)].sort((a, b) => a - b).forEach((output) => {
      const option = make("option", "", output < 0 ? "all" : data.outputs[output] ?? String(output));
      option.value = String(output);
      outputInput.append(option);
    });
  }
  treeInput.max = data.trees.length - 1;
  roundInput.max = data.rounds[data.rounds.length - 1];
  byId("trees").classList.add("ready");
  show(0);
})();
