// The form of "Your run": asks dp_saddle.your_run.answer, in this page's Python, for one part after
// the other, and shows what it says. Before that it shows what the site's builder was told.
(() => {
  'use strict';
  const root = document.getElementById('run-form');
  if (!root) return;
  const one = (selector) => root.querySelector(selector);
  const form = one('form'), say = one('.status'), data = JSON.parse(one('.data').textContent);
  const python = window.dpSaddlePython || {reason: () => 'This site was built without Python.'};
  const names = [...form.elements].map(e => e.name).filter(Boolean);
  let turn = 0, shown = '';

  // What is asked: all fields that are seen.
  function asked() {
    const values = Object.fromEntries(names.map(name => [name, form.elements[name].value.trim()]));
    if (values.sampling !== 'truncated-poisson') delete values.max_batch_size;
    return values;
  }
  const query = () => new URLSearchParams(asked()).toString();
  function seen() {
    one('[data-field=max_batch_size]').hidden = form.elements.sampling.value !== 'truncated-poisson';
  }
  function fill() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (!given.has('sigma')) return false;
    for (const name of names) if (given.has(name)) form.elements[name].value = given.get(name);
    seen();
    return true;
  }

  // Mistakes, at their field.
  function problem(name, text) {
    for (const field of names) {
      const here = field === name ? text : '', input = form.elements[field];
      root.querySelector(`#yr-${field}-problem`).textContent = here;
      if (here) input.setAttribute('aria-invalid', 'true'); else input.removeAttribute('aria-invalid');
    }
    say.textContent = text && !name ? text : text ? 'Not computed: see ' + label(name) + '.' : '';
  }
  const label = name => root.querySelector(`label[for=yr-${name}]`).textContent;

  const percent = x => (100*x).toPrecision(3) + ' %';
  const few = x => Number(x).toPrecision(4);
  const show = {
    cost(a) {
      const delta = form.elements.delta.value.trim(), [low, high] = a.shown;
      one('.eps output').textContent = `ε ≤ ${high} at δ = ${delta}`;
      const wide = a.least < .99*a.eps;
      one('.interval').textContent = wide
        ? `At least ${low} for some data sets, at most ${high}: which of it is true is not known. Report the upper end.`
        : `Certified: ${low} ≤ ε ≤ ${high}. The upper end to the last digit: ${a.exact}.`;
      one('.interval').dataset.exact = a.exact;
      const compared = a.poisson === null ? '' :
        ` Had the batches been Poisson samples, ε would be ${few(a.poisson)}: no guarantee for others.`;
      one('.note').textContent = `${a.run} Neighbours: ${a.relation}.${compared} ${a.warnings.join(' ')}`;
      one('.python').textContent = 'from dp_saddle import dpsgd, epsilon\n\n' + a.code;
    },
    curve(a) {
      const used = a.delta.filter(d => d > 0);
      plot('curve', a.eps, a.delta.map(d => d > 0 ? Math.log10(d) : NaN),
        {x: 'ε', y: 'δ', ticks: v => '1e' + v, low: Math.floor(Math.log10(Math.min(...used)))},
        `The privacy curve: δ falls from ${few(a.delta[0])} at ε = 0 to ${few(used[used.length - 1])} at ${few(a.eps[used.length - 1])}.`);
    },
    attack(a) {
      one('.attack').textContent = `At a false positive rate of ${percent(a.false_alarms)}, at most ${percent(a.tpr)} ` +
        `of the records are found. Who thinks it even odds that a record is there guesses wrongly at least ${percent(a.wrong)} ` +
        `of the time. True positives exceed false ones by ${percent(a.advantage)} at most.`;
      plot('attack', a.fpr, a.fnr, {x: 'false positive rate', y: 'false negative rate', low: 0, guide: true},
        `No attack is below the curve: at a false positive rate of ${percent(a.false_alarms)} it misses ${percent(1 - a.tpr)} or more. Dashed: guessing.`);
    },
    noise(a) {
      one('.noise').textContent = a.shown
        ? `Noise multiplier ${a.shown} meets ε ≤ ${a.target}: ε = ${few(a.eps)}, everything else as it is.`
        : 'No target was given.';
    },
    paragraph(a) { one('.paragraph').textContent = a.text; },
    way(a) {
      const parts = a.text.split(/\(([\w/]+)#([\w-]+)\)/);       // text, page, section, text, ...
      one('.way').replaceChildren(...parts.flatMap((text, i) => i % 3 === 0 ? [text] : i % 3 === 1
        ? [Object.assign(document.createElement('a'), {
            href: `${text}.html#${parts[i + 1].toLowerCase()}`,
            textContent: parts[i + 1].replaceAll('-', ' ')})] : []));
    },
    others(a) { one('tbody').replaceChildren(...a.rows.map(row)); one('.more').hidden = false; },
    slow_ones(a) { one('tbody').append(...a.rows.map(row)); one('.more').hidden = true; },
  };
  function row(r) {
    const line = document.createElement('tr');
    for (const key of ['accountant', 'lower', 'estimate', 'upper', 'worth']) {
      line.append(Object.assign(document.createElement('td'), {textContent: r[key]}));
    }
    return line;
  }

  // Round numbers from 0 to `right`, four to eight of them.
  function marks(right) {
    const ten = 10**Math.floor(Math.log10(right));
    const by = [.1, .2, .25, .5, 1, 2].map(f => f*ten).find(v => right/v < 8);
    return Array.from({length: Math.floor(right/by*(1 + 1e-9)) + 1}, (_, i) => i*by);
  }

  // A picture of one curve; its words are its caption too.
  function plot(name, x, y, {x: across, y: up, ticks = v => v, low, guide}, words) {
    const W = 360, H = 230, L = 52, B = 40, T = 10, R = 12, figure = one(`[data-plot=${name}]`);
    const top = Math.max(...y.filter(isFinite)), right = x[x.length - 1], high = name === 'attack' ? 1 : Math.ceil(top);
    const px = v => L + (W - L - R)*v/right, py = v => T + (H - T - B)*(high - v)/(high - low || 1);
    const step = Math.max(1, Math.ceil((high - low)/4));
    const rows = name === 'attack' ? [0, .25, .5, .75, 1] : Array.from({length: Math.floor((high - low)/step) + 1}, (_, i) => high - i*step);
    const columns = marks(right);
    const points = x.map((v, i) => [v, y[i]]).filter(p => isFinite(p[1])).map(p => px(p[0]).toFixed(1) + ',' + py(p[1]).toFixed(1));
    const parts = [
      ...rows.map(v => `<path class="grid" d="M${L} ${py(v)}H${W - R}"/><text x="${L - 6}" y="${py(v) + 4}" text-anchor="end">${ticks(v)}</text>`),
      ...columns.map(v => `<text x="${px(v)}" y="${H - B + 17}" text-anchor="middle">${+v.toPrecision(3)}</text>`),
      `<text x="${(W + L)/2}" y="${H - 5}" text-anchor="middle">${across}</text>`,
      `<text transform="translate(11 ${(H - B)/2 + T}) rotate(-90)" text-anchor="middle">${up}</text>`,
      guide ? `<path class="guide" d="M${px(0)} ${py(1)}L${px(1)} ${py(0)}"/>` : '',
      `<polyline class="curve" points="${points.join(' ')}"/>`];
    const svg = `<svg viewBox="0 0 ${W} ${H}" role="img">${parts.join('')}</svg>`;
    const caption = figure.querySelector('figcaption');
    figure.querySelector('svg')?.remove();
    caption.insertAdjacentHTML('beforebegin', svg);
    figure.querySelector('svg').setAttribute('aria-label', words);
    caption.textContent = words;
  }

  // Python's turn.
  const code = (part, what) =>
    `import json\nfrom dp_saddle.your_run import answer\nanswer('${part}', json.loads(${JSON.stringify(JSON.stringify(what))}))`;
  async function ask(parts) {
    const mine = ++turn, what = asked(), key = query();
    problem('', python.reason());
    if (python.reason()) return;
    one('.stop').hidden = false;
    root.setAttribute('aria-busy', 'true');
    for (const part of parts) {
      const result = await python.run(code(part, what), {quiet: true,
        onProgress: (text, count) => { if (mine === turn) python.tell(say, text, count); }});
      if (mine !== turn) return;
      const a = result.ok ? result.value : {error: result.error, field: ''};
      if (a.error && part === 'noise') { one('.noise').textContent = a.error; if (a.field === 'target_eps') problem(a.field, a.error); continue; }
      if (a.error) { done(a.field, a.error, part); return; }
      show[part](a);
      if (part === 'cost') { shown = key; root.classList.remove('stale'); }
    }
    done('', '');
  }
  function done(field, error) {
    one('.stop').hidden = true;
    root.removeAttribute('aria-busy');
    if (error) { problem(field, error); root.classList.add('stale'); } else if (!root.querySelector('[aria-invalid]')) say.textContent = 'Done.';
  }
  function compute() {
    history.replaceState(null, '', '#' + query());
    return ask(data.parts);
  }

  form.addEventListener('submit', event => { event.preventDefault(); compute(); });
  one('.stop').addEventListener('click', () => { turn += 1; python.stop(); done('', ''); say.textContent = 'Stopped. Compute begins anew.'; });
  one('.more').addEventListener('click', () => ask(data.later));
  async function copy(text, button) {
    const before = button.textContent;
    try { await navigator.clipboard.writeText(text); button.textContent = 'Copied'; }
    catch { say.textContent = text; button.textContent = 'Copy it from the line above'; }
    setTimeout(() => { button.textContent = before; }, 2000);
  }
  one('.copy').addEventListener('click', e => copy(one('.paragraph').textContent, e.target));
  one('.link').addEventListener('click', e => {
    history.replaceState(null, '', '#' + query());
    copy(location.href, e.target);
  });
  let waiting;
  form.addEventListener('input', () => {
    seen();
    clearTimeout(waiting);
    const live = python.started && python.started();
    root.classList.toggle('stale', query() !== shown);
    if (live) waiting = setTimeout(compute, 700);      // milliseconds without a key
    else say.textContent = query() === shown ? '' : python.reason() || 'Press Compute for these inputs.';
  });
  window.addEventListener('hashchange', () => { if (fill()) form.dispatchEvent(new Event('input')); });

  seen();
  shown = query();
  for (const part of data.parts) show[part](data.first[part]);
  say.textContent = python.reason();
  if (fill()) form.dispatchEvent(new Event('input'));
})();
