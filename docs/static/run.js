// Buttons on code cells, and answers to exercises, by the Python of python.js. What each cell needs
// has been written into the page by docs/runnable.py.
(() => {
  'use strict';
  const python = window.dpSaddlePython, data = document.getElementById('run-data');
  if (!python || !data) return;
  if (python.reason()) {                   // no buttons then, and a line that says why
    note(`Why no cell of this page can be run here: ${python.reason()}`);
    return;
  }
  const {cells, exercises} = JSON.parse(data.textContent);
  const shown = new Map();                 // by their places in `cells`
  const turnedAway = new Set();            // who was asked to run while another did
  let ran = new Set(), taken = new Set(), busy = null;     // ... that have been run; that the library gave
  const usual = usualReason();             // why most cells cannot be run: said once, above them

  function make(tag, properties, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  // A line below the title.
  function note(text) {
    const line = make('p', {className: 'dp-why', textContent: text});
    if (location.protocol === 'file:') {
      const faq = document.documentElement.dataset.content_root + 'faq.html#can-i-run-the-cells-of-the-site';
      line.append(' ', make('a', {href: faq, textContent: 'How?'}));
    }
    document.querySelector('.bd-article h1')?.after(line);
  }

  // Places and code cells, in the page's order.
  function placed() {
    const found = [];
    for (const element of document.querySelectorAll('.bd-article div.cell')) {
      const tag = [...element.classList].find(c => /^tag_run-\d+$/.test(c));
      if (tag && element.querySelector('.cell_input pre')) found.push([Number(tag.slice(8)), element]);
    }
    return found;
  }

  // What is in the way of most cells of a page where most cannot be run; '' elsewhere.
  function usualReason() {
    const all = placed(), reasons = all.map(([place]) => cells[place].no).filter(Boolean);
    if (reasons.length <= all.length/2) return '';
    const count = new Map();
    for (const no of reasons) count.set(no, (count.get(no) || 0) + 1);
    const most = [...count].sort((a, b) => b[1] - a[1])[0][0];
    const they = most.replace('it needs', 'they need').replace('it takes', 'they take').replace('it is', 'they are');
    const who = reasons.length === all.length ? 'The cells of this page'
      : `${reasons.length} of the ${all.length} cells of this page`;
    note(`${who} cannot be run in a browser: ${they}${count.size > 1 ? ', if no other reason stands at a cell' : ''}.`);
    return most;
  }

  // Hides a button; `next` has the focus then, if it was here.
  function hide(button, next) {
    const here = document.activeElement === button;
    button.hidden = true;
    if (here) next.focus();
  }

  // What a cell says, as the page shows the outputs that are stored.
  class Output {
    constructor(place, alt) {
      this.alt = alt;
      this.box = make('div', {className: 'cell_output dp-output'});
      this.box.setAttribute('role', 'group');
      this.box.setAttribute('aria-label', 'Output, computed now');
      place.append(this.box);
    }
    text(kind, text) {
      if (kind === 'html') {
        this.box.append(make('div', {className: 'output text_html', innerHTML: text}));
        return;
      }
      if (!this.pre || this.kind !== kind) {
        this.kind = kind;
        this.pre = make('pre', {tabIndex: 0});
        this.box.append(make('div', {className: `output ${kind}`}, make('div', {className: 'highlight'}, this.pre)));
      }
      this.pre.append(text);
    }
    figure(src) {
      const image = make('img', {alt: this.alt});
      image.onload = () => { image.width = Math.round(image.naturalWidth/2); };
      image.src = src;
      this.pre = null;
      this.box.append(image);
    }
    hooks(status, name) {
      return {name, onText: (kind, text) => this.text(kind, text), onFigure: url => this.figure(url),
              onProgress: progress(status)};
    }
  }

  class Cell {
    constructor(place, element) {
      Object.assign(this, {place, element, blocked: cells[place].no});
      this.input = element.querySelector('.cell_input');
      this.pre = this.input.querySelector('pre');
      this.original = this.pre.textContent.replace(/\n$/, '');
      this.stored = element.querySelector('.cell_output');
      const picture = this.stored && this.stored.querySelector('img');
      this.alt = picture ? picture.alt : 'Figure of this cell.';
      this.status = make('span', {className: 'dp-status'});
      const code = `code cell ${[...shown.keys()].length + 1}`;
      const button = (text, label, action) => {
        const b = make('button', {type: 'button', textContent: text, onclick: action});
        b.setAttribute('aria-label', `${text}: ${label}`);
        return b;
      };
      if (this.blocked) {
        const b = button('Run', code);
        b.disabled = true;
        b.removeAttribute('aria-label');
        this.status.textContent = `Not in a browser: ${this.blocked}.`;
        this.bar = make('div', {className: 'dp-run'}, b, this.status);
      } else {
        this.status.setAttribute('role', 'status');
        this.runs = [button('Run', code, () => start(this, () => this.alone())),
                     button('Run all above', `${code}, and all before it`, () => start(this, () => this.afterAll()))];
        this.stop = button('Stop', code, () => python.stop());
        this.edit = button('Edit', code, () => this.editable());
        this.reset = button('Reset', code, () => this.restore());
        this.stop.hidden = this.reset.hidden = true;
        this.bar = make('div', {className: 'dp-run'}, ...this.runs, this.stop, this.edit, this.reset, this.status);
        this.bar.setAttribute('role', 'group');
        this.bar.setAttribute('aria-label', code);
        this.name = code;
      }
      let before = this.input;
      while (before.parentElement !== element) before = before.parentElement;
      before.after(this.bar);
    }

    get code() { return this.area ? this.area.value : this.original; }

    editable() {
      if (!this.area) {
        this.area = editor(this.original, `The code of ${this.name}`, () => start(this, () => this.alone()));
        this.area.addEventListener('input', () => ran.delete(this.place));
        this.pre.closest('div[class*=highlight-]').hidden = true;
        this.input.append(this.area);
        this.reset.hidden = false;
      }
      this.input.closest('details')?.setAttribute('open', '');
      this.area.focus();
    }

    restore() {
      if (this.area) this.area.remove();
      this.area = null;
      this.pre.closest('div[class*=highlight-]').hidden = false;
      this.clear();
      if (this.stored) this.stored.hidden = false;
      this.reset.hidden = true;
      this.status.textContent = '';
      ran.delete(this.place);
      this.edit.focus();
    }

    clear() {
      if (this.output) this.output.box.remove();
      this.output = null;
    }

    // `too`: who else is told what is loading, for this cell may be folded.
    async go(too = () => {}) {
      this.clear();
      if (this.stored) this.stored.hidden = true;
      const output = this.output = new Output(this.element, this.area ? 'Figure of the changed cell.' : this.alt);
      this.bar.classList.add('running');
      this.stop.hidden = this.reset.hidden = false;
      const began = performance.now();
      const hooks = {...output.hooks(this.status, `<${this.name}>`), place: this.place};
      const here = hooks.onProgress;
      hooks.onProgress = (text, count) => { here(text, count); if (/^Loading/.test(text)) too(text, count); };
      const result = await python.run(this.code, hooks);
      hide(this.stop, this.runs[0]);
      this.bar.classList.remove('running');
      python.tell(this.status, said(result, performance.now() - began));
      if (!result.ok && !result.stopped) output.text('error', result.error);
      if (result.ok) ran.add(this.place);
      if (result.stopped) forget();
      return result;
    }

    // What it needs of the cells above, where that has not been run, and then the cell.
    async alone() {
      if (await above(wantedBy(cells[this.place]), this, false)) return this.go();
    }

    async afterAll() {
      const all = [...Array(this.place).keys()];
      const wanted = all.filter(k => !cells[k].no && (cells[this.place].solution || !cells[k].solution));
      if (await above(wanted, this, true)) return this.go();
    }
  }

  function forget() { ran = new Set(); taken = new Set(); }

  // Has the reader run or changed a cell whose code is in the library? Until then the library itself
  // gives what these cells define: it is the same code, and nothing has to be run for it.
  function touched() {
    return [...shown.values()].some(c => cells[c.place].library !== undefined && (c.area || ran.has(c.place)));
  }

  function wantedBy(one) { return touched() ? one.all || one.needs || [] : one.needs || []; }

  // Runs the cells at `places`, or those of them that have not been run; says so at the one that asks.
  async function above(places, asker, again) {
    const quick = k => !again && !touched() && cells[k].library !== undefined;
    const wanted = places.filter(k => cells[k].library !== '' || !quick(k)).filter(k => again || !(ran.has(k) || (quick(k) && taken.has(k))));
    const seen = wanted.filter(k => shown.has(k) && !quick(k)).length;
    const onProgress = progress(asker.status);
    let done = 0;
    asker.stop.hidden = false;
    for (const k of wanted) {
      let result;
      if (quick(k)) {
        result = await python.run(cells[k].library, {quiet: true, name: '<setup>', onProgress, place: k});
        if (result.ok) taken.add(k);
      } else if (shown.has(k)) {
        done += 1;
        python.tell(asker.status, 'Running what comes before', `: ${done} of ${seen} …`);
        result = await shown.get(k).go(onProgress);
      } else {
        result = await python.run(cells[k].code, {quiet: true, name: '<setup>', onProgress, place: k});
        if (result.ok) ran.add(k);
      }
      if (result.stopped || (!result.ok && shown.has(k) && !again)) {
        if (result.stopped) forget();
        hide(asker.stop, asker.runs[0]);
        python.tell(asker.status, result.stopped ? result.error : 'A cell above has failed: see there.');
        return false;
      }
    }
    return true;
  }

  // `text`, which screen readers read out, and how far it is, which they do not.
  function progress(status) {
    return (text, count) => { if (text) python.tell(status, text, `${count || ''} …`); };
  }

  async function start(asker, action) {
    if (busy) {
      if (busy !== asker) {
        python.tell(asker.status, 'Another cell is running: wait for it, or stop it.');
        turnedAway.add(asker);
      }
      return;
    }
    busy = asker;
    document.documentElement.classList.add('dp-busy');
    try { await action(); } finally {
      busy = null;
      for (const one of turnedAway) if (/^Another/.test(one.status.textContent)) python.tell(one.status, '');
      turnedAway.clear();
      document.documentElement.classList.remove('dp-busy');
    }
  }

  function said(result, ms) {
    if (result.stopped) return result.error;
    if (result.ok) return `Done in ${ms < 1000 ? Math.round(ms) + ' ms' : (ms/1000).toFixed(1) + ' s'}.`;
    return 'Error: ' + result.error.trim().split('\n').pop();
  }

  function editor(text, label, run) {
    const area = make('textarea', {value: text, spellcheck: false, className: 'dp-editor', wrap: 'off'});
    area.setAttribute('aria-label', label + '. Shift and Enter run it.');
    area.setAttribute('autocapitalize', 'off');
    area.setAttribute('autocorrect', 'off');
    const fit = () => { area.rows = area.value.split('\n').length + 1; };
    area.addEventListener('input', fit);
    area.addEventListener('keydown', e => {
      if (e.key === 'Enter' && (e.shiftKey || e.ctrlKey)) { e.preventDefault(); run(); }
    });
    fit();
    return area;
  }

  class Answer {
    constructor(label, one, box) {
      Object.assign(this, {label, one});
      this.area = editor(one.start, 'Your answer', () => start(this, () => this.check()));
      this.status = make('span', {className: 'dp-status'});
      this.status.setAttribute('role', 'status');
      this.button = make('button', {type: 'button', textContent: 'Check', onclick: () => start(this, () => this.check())});
      this.runs = [this.button];
      this.stop = make('button', {type: 'button', textContent: 'Stop', hidden: true, onclick: () => python.stop()});
      this.reset = make('button', {type: 'button', textContent: 'Reset', onclick: () => {
        this.area.value = one.start;
        this.area.dispatchEvent(new Event('input'));
        this.place.querySelectorAll('.cell_output').forEach(e => e.remove());
        this.status.textContent = '';
      }});
      const names = one.names.join(', ');
      this.place = make('div', {className: 'dp-answer'},
        make('p', {}, make('strong', {textContent: 'Your answer'}), `: define ${names}. Check runs your code, and then what the solution asserts.`),
        this.area, make('div', {className: 'dp-run'}, this.button, this.stop, this.reset, this.status));
      this.place.setAttribute('role', 'group');
      this.place.setAttribute('aria-label', 'Your answer');
      box.append(this.place);
    }
    async check() {
      this.place.querySelectorAll('.cell_output').forEach(e => e.remove());
      if (this.area.value.trim() === this.one.start.trim()) {
        this.status.textContent = 'Nothing to check yet: put your answer where the dots are.';
        return;
      }
      if (!await above(wantedBy(this.one), this, false)) return;
      const output = new Output(this.place, 'Figure of your answer.');
      this.stop.hidden = false;
      const check = {names: this.one.names, checks: this.one.checks, above: wantedBy(this.one)};
      const result = await python.run(this.area.value, {...output.hooks(this.status, '<your answer>'), check});
      hide(this.stop, this.button);
      if (result.stopped) forget();
      this.status.textContent = result.ok ? `Right: ${result.value} of ${result.value} checks hold.`
        : result.stopped ? result.error : 'Not yet.';
      if (!result.ok && !result.stopped) output.text('error', result.error);
      this.place.classList.toggle('right', result.ok);
    }
  }

  for (const [place, element] of placed()) {
    if (!usual || cells[place].no !== usual) shown.set(place, new Cell(place, element));
  }
  for (const [label, one] of Object.entries(exercises)) {
    const box = document.getElementById(label);
    if (box) new Answer(label, one, box);
  }
})();
