// The page: buttons, keys, mouse, search, the list of events and the state at a moment.
const element = id => document.getElementById(id);
const list = element('list'), rowsBox = element('rows'), ROW = 20;
let listed = []; // events in the list
let queued = false;

function redraw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => { queued = false; drawTimeline(); drawOverview(); });
}

function look(from, to, tell = true) {
  const span = Math.min(Math.max(to - from, 2e-5), end * 1.02);
  const start = Math.min(Math.max(from, -end * 0.01), end * 1.01 - span);
  view.from = start; view.to = start + span;
  // Beside another run, which shows the same time.
  if (tell && parent !== window) parent.postMessage([view.from, view.to], '*');
  redraw();
}

function zoom(by, around = (view.from + view.to) / 2) {
  look(around - (around - view.from) * by, around + (view.to - around) * by);
}

function choose(i, centre) {
  if (i < 0 || i >= count) return;
  chosen = i;
  const span = view.to - view.from;
  if (centre || at[i] < view.from || at[i] > view.to) look(at[i] - span / 2, at[i] + span / 2);
  const row = placeIn(listed, i);
  if (listed[row] === i) {
    const y = row * ROW;
    if (y < list.scrollTop || y > list.scrollTop + list.clientHeight - ROW) list.scrollTop = y - list.clientHeight / 2;
  }
  showState(); fillList(); redraw();
}

function refreshList() {
  const query = element('search').value.trim().toLowerCase();
  matches = null; listed = [];
  for (let i = 0; i < count; i++) {
    if (!shown[kind(i)]) continue;
    if (query && !(names[node[i]] + ' ' + text(i)).toLowerCase().includes(query)) continue;
    listed.push(i);
  }
  if (query) matches = listed;
  element('found').textContent = query ? listed.length + ' found' : count + ' events';
  rowsBox.style.height = listed.length * ROW + 'px';
  fillList(); redraw();
}

/// Only the rows in sight exist.
function fillList() {
  const from = Math.max(0, (list.scrollTop / ROW | 0) - 10), to = Math.min(listed.length, from + (list.clientHeight / ROW | 0) + 30);
  const fragment = document.createDocumentFragment();
  for (let row = from; row < to; row++) {
    const i = listed[row], div = document.createElement('div');
    div.style.top = row * ROW + 'px'; div.textContent = line(i); div.style.color = kind(i) === 2 || kind(i) === 4 ? '' : `var(--${KINDS[kind(i)]})`;
    if (i === chosen) div.className = 'here';
    div.onclick = () => choose(i, false);
    fragment.append(div);
  }
  rowsBox.replaceChildren(fragment);
}

function showState() {
  const t = chosen >= 0 ? at[chosen] : view.to;
  element('now').textContent = seconds(t) + ' s' + (chosen >= 0 ? ' · ' + names[node[chosen]] : '');
  element('event').textContent = chosen >= 0 ? text(chosen) : 'choose an event';
  const cell = (row, value, tag = 'td') => { const c = document.createElement(tag); c.textContent = value; row.append(c); };
  const table = element('queues'), head = document.createElement('tr');
  ['queue', 'acknowledged to', 'consumed to'].forEach(title => cell(head, title, 'th'));
  const body = [...queues].sort().map(([queue, [acknowledged, consumed]]) => {
    const row = document.createElement('tr');
    [queue, stepAt(acknowledged, t), stepAt(consumed, t)].forEach(value => cell(row, value));
    return row;
  });
  table.replaceChildren(head, ...body);
}

/// The event next to a point of the timeline, in the lane under it if there is one near.
function eventAt(x, y) {
  const width = timeline.clientWidth, t = toTime(x, width), lane = Math.floor((y - AXIS) / laneHeight());
  const near = (toTime(x + 8, width) - t);
  let best = -1, bestGap = Infinity;
  for (let i = first(t - near), to = first(t + near); i < to; i++) {
    if (!shown[kind(i)]) continue;
    const gap = Math.abs(at[i] - t) + (node[i] === lane ? 0 : near * 2) + (kind(i) > 1 ? near / 10 : 0);
    if (gap < bestGap) { best = i; bestGap = gap; }
  }
  return best;
}

function jumpToViolation() {
  if (violated < 0) return;
  look(Math.max(0, at[violated] - end / 200), at[violated] + end / 200);
  choose(violated, true);
}

/// The next or the last event of the list, from the chosen one on.
function walk(by) {
  if (!listed.length) return;
  const row = placeIn(listed, Math.max(chosen, 0));
  const next = chosen < 0 ? 0 : row + (by > 0 ? (listed[row] === chosen ? 1 : 0) : -1);
  choose(listed[Math.min(Math.max(next, 0), listed.length - 1)], false);
}

function drag(canvas, start, move) {
  canvas.addEventListener('pointerdown', down => {
    canvas.setPointerCapture(down.pointerId);
    const state = start(down);
    let moved = false;
    const follow = event => { if (Math.abs(event.offsetX - down.offsetX) > 3) moved = true; if (moved || canvas === overview) move(event, down, state); };
    const stop = event => {
      canvas.removeEventListener('pointermove', follow); canvas.removeEventListener('pointerup', stop);
      if (!moved && canvas === timeline) choose(eventAt(event.offsetX, event.offsetY), false);
    };
    canvas.addEventListener('pointermove', follow); canvas.addEventListener('pointerup', stop);
    if (canvas === overview) move(down, down, state);
  });
}

drag(timeline, () => ({ ...view }), (event, down, old) => {
  const shift = (down.offsetX - event.offsetX) / (timeline.clientWidth - gutter()) * (old.to - old.from);
  look(old.from + shift, old.to + shift);
});
drag(overview, () => null, event => {
  const t = event.offsetX / overview.clientWidth * end, span = view.to - view.from;
  look(t - span / 2, t + span / 2);
});
timeline.addEventListener('wheel', event => {
  event.preventDefault();
  const span = view.to - view.from;
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) look(view.from + event.deltaX / 800 * span, view.to + event.deltaX / 800 * span);
  else zoom(Math.exp(event.deltaY / 400), toTime(event.offsetX, timeline.clientWidth));
}, { passive: false });
document.addEventListener('keydown', event => {
  if (event.target === element('search')) {
    if (event.key === 'Enter') { event.preventDefault(); walk(event.shiftKey ? -1 : 1); }
    if (event.key === 'Escape') { element('search').value = ''; refreshList(); timeline.focus(); }
    return;
  }
  const span = view.to - view.from;
  const action = {
    ArrowRight: () => walk(1), ArrowLeft: () => walk(-1), ArrowDown: () => walk(1), ArrowUp: () => walk(-1),
    '+': () => zoom(0.6), '-': () => zoom(1 / 0.6), 0: () => look(0, end), v: jumpToViolation,
    '/': () => element('search').focus(), PageDown: () => look(view.from + span / 2, view.to + span / 2), PageUp: () => look(view.from - span / 2, view.to - span / 2),
  }[event.key];
  if (action && !event.ctrlKey && !event.metaKey) { event.preventDefault(); action(); }
});
let typing;
element('search').addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(refreshList, 120); });
list.addEventListener('scroll', fillList);
element('violation').onclick = jumpToViolation;
element('violation').hidden = violated < 0;
element('whole').onclick = () => look(0, end);
element('in').onclick = () => zoom(0.6);
element('out').onclick = () => zoom(1 / 0.6);
KINDS.forEach((name, k) => {
  const button = document.createElement('button'), dot = document.createElement('i');
  dot.style.background = `var(--${name})`;
  button.append(dot, { turn: 'faults', client: 'clients', net: 'network', disk: 'disk', other: 'other' }[name]);
  button.setAttribute('aria-pressed', 'true');
  button.onclick = () => { shown[k] = !shown[k]; button.setAttribute('aria-pressed', String(shown[k])); refreshList(); };
  element('kinds').append(button);
});
addEventListener('resize', () => { redraw(); fillList(); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); redraw(); });

document.title = data.title;
element('title').textContent = data.title;
element('verdict').textContent = data.checker ? `${data.checker}: ${data.finding}` : 'every promise was kept';
element('verdict').className = data.checker ? 'bad' : 'good';
element('facts').textContent = `commit ${data.commit} · hash ${data.hash} · ${data.simulated.toFixed(3)} s simulated · ${count} events · cargo run -p sim -- replay ${data.which}`;
element('plan').textContent = data.plan;

// At first: the time in which things went wrong, and the life of the message that the violation names.
const named = (data.finding ?? '').match(/[0-9]{5,}/);
if (named) element('search').value = named[0];
readColours(); refreshList(); showState();
let healing = -1;
for (let i = 0; i < count && healing < 0; i++) if (whats[what[i]] === 'healing') healing = i;
if (violated >= 0) choose(violated, false);
look(0, healing >= 0 ? at[healing] * 1.05 : end);
// For the page that shows two runs.
window.run = { count, line, choose: i => choose(i, true), follow: (from, to) => look(from, to, false) };
