'use strict';
// The run: columns of numbers, and what follows from them.
const data = JSON.parse(document.getElementById('data').textContent);
const { names, whats, words, rows } = data.trace;
const count = rows.length;
const at = new Float64Array(count), node = new Uint16Array(count), what = new Uint16Array(count), word = new Uint32Array(count);
{
  let now = 0;
  rows.forEach((row, i) => { now += row[0]; at[i] = now / 1e6; node[i] = row[1]; what[i] = row[2]; word[i] = row[3]; });
}
const end = Math.max(count ? at[count - 1] : 0, 1e-3);
const numbers = i => rows[i].slice(4);
const seconds = t => t.toFixed(6);
const text = i => [whats[what[i]], numbers(i).join(' '), words[word[i]]].filter(Boolean).join(' ');
const line = i => seconds(at[i]).padStart(14) + ' ' + names[node[i]].padEnd(18) + ' ' + text(i);

/// The first event at or after a time.
function first(t) {
  let low = 0, high = count;
  while (low < high) { const middle = (low + high) >> 1; if (at[middle] < t) low = middle + 1; else high = middle; }
  return low;
}

// Kinds of events, by what happened.
const KINDS = ['turn', 'client', 'net', 'disk', 'other'];
const TURNS = new Set(['fault', 'violated', 'healing', 'killed', 'power cut', 'os crash', 'restarted', 'paused', 'resumed',
  'ended', 'stopped', 'asked to stop', 'clock shifted']);
const CLIENTS = new Set(['sending', 'acknowledged', 'scheduled', 'refused', 'unknown', 'handed back', 'consumed', 'found']);
const kindOf = whats.map(name => {
  if (TURNS.has(name)) return 0;
  if (CLIENTS.has(name)) return 1;
  if (name.startsWith('net ') || name.startsWith('link')) return 2;
  return name.startsWith('disk ') ? 3 : 4;
});
const kind = i => kindOf[what[i]];
/// The events of each kind, in order.
const ofKind = KINDS.map((_, k) => { const found = []; for (let i = 0; i < count; i++) if (kind(i) === k) found.push(i); return Uint32Array.from(found); });
const violated = (() => { for (let i = count - 1; i >= 0; i--) if (whats[what[i]] === 'violated') return i; return -1; })();

// Episodes: spans of time in which a machine was down, paused, or under a fault.
const episodes = [];
const peers = new Map(); // connection -> the machines at its two ends
const queues = new Map(); // queue -> offsets by time
const progress = names.map(() => []); // per broker: time, acknowledged, consumed so far
{
  const down = new Map(), paused = new Map(), totals = names.map(() => [0, 0]);
  const close = (open, style, n, t) => { if (open.has(n)) { episodes.push({ node: n, from: open.get(n), to: t, style, label: '' }); open.delete(n); } };
  const place = name => names.indexOf(name);
  for (let i = 0; i < count; i++) {
    const n = node[i], name = whats[what[i]];
    if (name === 'killed' || name === 'power cut' || name === 'os crash') { close(paused, 'paused', n, at[i]); if (!down.has(n)) down.set(n, at[i]); }
    else if (name === 'restarted') close(down, 'down', n, at[i]);
    else if (name === 'paused') paused.set(n, paused.get(n) ?? at[i]);
    else if (name === 'resumed') close(paused, 'paused', n, at[i]);
    else if (name === 'fault') {
      const [label, fields] = Object.entries(JSON.parse(words[word[i]]))[0];
      const lasts = (fields.for_us ?? fields.down_us ?? 0) / 1e6;
      const touched = new Set(Object.values(fields).flat().map(place).filter(p => p > 0));
      for (const p of touched.size ? touched : [0]) episodes.push({ node: p, from: at[i], to: Math.min(at[i] + lasts, end), style: 'fault', label, event: i });
    }
    else if (name === 'net connect') peers.set(rows[i][4], [n, 0]);
    else if (name === 'net accept') { const ends = peers.get(rows[i][4]); if (ends) ends[1] = n; }
    else if (name === 'acknowledged' || name === 'consumed' || name === 'found') {
      const queue = words[word[i]], offset = rows[i][5], column = name === 'acknowledged' ? 0 : 1;
      if (name === 'found') continue;
      if (!queues.has(queue)) queues.set(queue, [[], []]);
      const steps = queues.get(queue)[column];
      steps.push([at[i], Math.max(offset + 1, steps.length ? steps[steps.length - 1][1] : 0)]);
      const broker = place(queue.split('/')[0]);
      if (broker > 0) { totals[broker][column]++; progress[broker].push([at[i], ...totals[broker]]); }
    }
  }
  for (const n of [...down.keys()]) close(down, 'down', n, end);
  for (const n of [...paused.keys()]) close(paused, 'paused', n, end);
  // Without a connection's other end its data is drawn at the receiver alone.
  for (const [id, ends] of peers) if (!ends[1]) peers.delete(id);
}

/// The last step at or before a time; 0 before the first.
function stepAt(steps, t) {
  let low = 0, high = steps.length;
  while (low < high) { const middle = (low + high) >> 1; if (steps[middle][0] <= t) low = middle + 1; else high = middle; }
  return low ? steps[low - 1][1] : 0;
}
