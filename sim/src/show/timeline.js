// The drawing: a timeline of lanes and an overview of the whole run.
const shown = KINDS.map(() => true);
const view = { from: 0, to: end };
let chosen = -1, matches = null; // matches: a sorted array of events, or null without a search
const timeline = document.getElementById('timeline'), overview = document.getElementById('overview');
let colour = {};
const AXIS = 22, gutter = () => (innerWidth < 700 ? 84 : 128);

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ground', 'panel', 'ink', 'faint', 'line', 'lane', 'mark', 'down', ...KINDS]) colour[name] = style.getPropertyValue('--' + name).trim();
}

function laneHeight() {
  const room = Math.max(innerHeight * 0.48, 180) - AXIS;
  return Math.max(22, Math.min(64, Math.floor(room / names.length)));
}

function fit(canvas, height) {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale); canvas.style.height = height + 'px';
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return [pen, width, height];
}

const toX = (t, width) => gutter() + (t - view.from) / (view.to - view.from) * (width - gutter());
const toTime = (x, width) => view.from + (x - gutter()) / (width - gutter()) * (view.to - view.from);

/// A round distance between marks on the axis.
function step(span, room) {
  const least = span / Math.max(room / 110, 1);
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map(n => n * power).find(n => n >= least);
}

function axisLabel(t, distance) {
  const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(distance))));
  return t.toFixed(digits) + ' s';
}

function drawTimeline() {
  const lane = laneHeight(), [pen, width, height] = fit(timeline, AXIS + lane * names.length);
  pen.fillStyle = colour.ground; pen.fillRect(0, 0, width, height);
  const left = gutter(), top = n => AXIS + n * lane;
  names.forEach((_, n) => { if (n % 2 === 0) { pen.fillStyle = colour.lane; pen.fillRect(left, top(n), width, lane); } });
  drawEpisodes(pen, width, lane, top);
  drawAxis(pen, width, height);
  names.forEach((_, n) => drawProgress(pen, width, lane, top(n), progress[n]));
  const from = first(view.from), to = first(view.to + 1e-9);
  drawArrows(pen, width, lane, top, from, to);
  drawTicks(pen, width, lane, top, from, to);
  if (chosen >= 0) drawChosen(pen, width, height, lane, top);
  pen.fillStyle = colour.ground; pen.fillRect(0, 0, left, height);
  pen.fillStyle = colour.ink; pen.font = '12px system-ui, sans-serif'; pen.textBaseline = 'middle'; pen.textAlign = 'right';
  names.forEach((name, n) => pen.fillText(name, left - 8, top(n) + lane / 2, left - 14));
}

function drawAxis(pen, width, height) {
  const distance = step(view.to - view.from, width - gutter());
  pen.strokeStyle = colour.line; pen.fillStyle = colour.faint; pen.font = '11px system-ui, sans-serif';
  pen.textBaseline = 'middle'; pen.textAlign = 'left'; pen.lineWidth = 1;
  for (let k = Math.ceil(view.from / distance); k * distance <= view.to; k++) {
    const x = Math.round(toX(k * distance, width)) + 0.5;
    pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, height); pen.stroke();
    pen.fillText(axisLabel(k * distance, distance), x + 4, AXIS / 2);
  }
}

function drawEpisodes(pen, width, lane, top) {
  pen.font = '11px system-ui, sans-serif'; pen.textBaseline = 'top'; pen.textAlign = 'left';
  for (const episode of episodes) {
    if (episode.to < view.from || episode.from > view.to) continue;
    const x = Math.max(toX(episode.from, width), gutter()), w = Math.max(toX(episode.to, width) - x, 2), y = top(episode.node);
    if (episode.style === 'fault') {
      pen.globalAlpha = 0.16; pen.fillStyle = colour.turn; pen.fillRect(x, y, w, lane); pen.globalAlpha = 1;
      pen.fillRect(x, y, 2, lane);
      if (w > 24 || view.to - view.from < 5) pen.fillText(episode.label, x + 5, y + 2);
    } else {
      pen.globalAlpha = episode.style === 'down' ? 0.9 : 0.5; pen.fillStyle = colour.down; pen.fillRect(x, y + lane / 4, w, lane / 2); pen.globalAlpha = 1;
      if (w > 44) { pen.fillStyle = colour.faint; pen.fillText(episode.style, x + 4, y + lane / 2 - 6); }
    }
  }
}

/// What a broker has acknowledged and what consumers got of it, as two rising lines.
function drawProgress(pen, width, lane, y, steps) {
  if (steps.length < 2) return;
  const most = Math.max(...steps[steps.length - 1].slice(1), 1);
  for (const column of [1, 2]) {
    pen.strokeStyle = column === 1 ? colour.client : colour.other; pen.globalAlpha = 0.55; pen.lineWidth = 1.5; pen.beginPath();
    let last = -1;
    for (const entry of steps) {
      const x = Math.max(Math.round(toX(entry[0], width)), gutter() - 1);
      if (x === last && x > gutter()) continue;
      if (x > width) break;
      const h = y + lane - 2 - entry[column] / most * (lane - 6);
      if (last < 0) pen.moveTo(x, h); else pen.lineTo(x, h);
      last = x;
    }
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

/// Messages between machines, as long as there are not too many to see one.
function drawArrows(pen, width, lane, top, from, to) {
  const dense = to - from > 1500 || (to - from) * 3 > width;
  if (!shown[2] || dense) return;
  pen.strokeStyle = colour.net; pen.fillStyle = colour.net; pen.lineWidth = 1; pen.globalAlpha = 0.7;
  for (let i = from; i < to; i++) {
    if (whats[what[i]] !== 'net data') continue;
    const ends = peers.get(rows[i][4]);
    if (!ends) continue;
    const other = ends[0] === node[i] ? ends[1] : ends[0];
    const x = Math.round(toX(at[i], width)) + 0.5, a = top(other) + lane / 2, b = top(node[i]) + lane / 2;
    pen.beginPath(); pen.moveTo(x, a); pen.lineTo(x, b); pen.stroke();
    const d = Math.sign(b - a) * 5;
    pen.beginPath(); pen.moveTo(x, b); pen.lineTo(x - 3, b - d); pen.lineTo(x + 3, b - d); pen.fill();
  }
  pen.globalAlpha = 1;
}

/// Where a number stands in a sorted array, or would stand.
function placeIn(sorted, number) {
  let low = 0, high = sorted.length;
  while (low < high) { const middle = (low + high) >> 1; if (sorted[middle] < number) low = middle + 1; else high = middle; }
  return low;
}

/// Every event is a tick in its lane; of many on one pixel one is drawn.
function drawTicks(pen, width, lane, top, from, to) {
  const left = gutter(), scale = (width - left) / (view.to - view.from), last = new Int32Array(names.length);
  for (const k of [4, 2, 3, 1, 0]) {
    if (!shown[k]) continue;
    pen.fillStyle = colour[KINDS[k]];
    const tall = k === 0 ? lane - 4 : k === 1 ? lane * 0.5 : lane * 0.3, down = [2, lane * 0.25, lane * 0.6, lane * 0.65, lane * 0.4][k];
    last.fill(-1);
    const some = ofKind[k];
    for (let j = placeIn(some, from); j < some.length && some[j] < to; j++) {
      const i = some[j], n = node[i], x = (left + (at[i] - view.from) * scale) | 0;
      if (last[n] === x) continue;
      last[n] = x;
      pen.fillRect(x, top(n) + down, k === 0 ? 2 : 1.5, tall);
    }
  }
  if (!matches) return;
  pen.fillStyle = colour.mark;
  const drawn = new Set();
  for (const i of matches) {
    if (at[i] < view.from || at[i] > view.to) continue;
    const x = toX(at[i], width) | 0, key = x * 64 + node[i];
    if (drawn.has(key)) continue;
    drawn.add(key);
    pen.beginPath(); pen.arc(x + 0.5, top(node[i]) + lane / 2, 3.5, 0, 7); pen.fill();
  }
}

function drawChosen(pen, width, height, lane, top) {
  const x = Math.round(toX(at[chosen], width)) + 0.5;
  pen.strokeStyle = colour.mark; pen.lineWidth = 1.5;
  pen.beginPath(); pen.moveTo(x, AXIS); pen.lineTo(x, height); pen.stroke();
  pen.fillStyle = colour.mark; pen.beginPath(); pen.arc(x, top(node[chosen]) + lane / 2, 5, 0, 7); pen.fill();
}

let bars = new Float64Array(0); // events by pixel of the overview

/// How much happened when, faults, matches, and the part that the timeline shows.
function drawOverview() {
  const [pen, width, height] = fit(overview, 34);
  pen.fillStyle = colour.panel; pen.fillRect(0, 0, width, height);
  if (bars.length !== Math.max(width | 0, 1)) {
    bars = new Float64Array(Math.max(width | 0, 1));
    for (let i = 0; i < count; i++) bars[Math.min(at[i] / end * width | 0, bars.length - 1)]++;
  }
  const most = Math.log1p(bars.reduce((a, b) => Math.max(a, b), 1));
  pen.fillStyle = colour.net;
  bars.forEach((n, x) => { if (n) { const h = Math.max(Math.log1p(n) / most * (height - 8), 1); pen.fillRect(x, height - h, 1, h); } });
  const mark = (t, c) => { pen.fillStyle = c; pen.fillRect(t / end * width, 0, 2, height); };
  for (const episode of episodes) if (episode.style === 'fault') mark(episode.from, colour.turn);
  if (matches) for (const i of matches.length > 2000 ? [] : matches) mark(at[i], colour.mark);
  if (violated >= 0) mark(at[violated], colour.turn);
  pen.strokeStyle = colour.client; pen.lineWidth = 2;
  pen.fillStyle = colour.client; pen.globalAlpha = 0.12;
  const x = view.from / end * width, w = Math.max((view.to - view.from) / end * width, 3);
  pen.fillRect(x, 0, w, height); pen.globalAlpha = 1; pen.strokeRect(x + 1, 1, Math.max(w - 2, 1), height - 2);
}
