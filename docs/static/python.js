// Python in this page: one worker, started when something is to run, and not before.
(() => {
  'use strict';
  const files = window.dpSaddleFiles || {none: 'This site was built without Pyodide.'};
  const here = document.currentScript.src;           // the site may live under any path
  let worker = null, job = 0;
  const open = new Map();                            // of those that run: {hooks, done}

  function reason() {
    if (files.none) return files.none;
    if (!/^https?:$/.test(location.protocol)) {
      return 'Opened as a file, a page may not load Python; served by any static server, it may.';
    }
    if (!window.Worker || !window.WebAssembly) return 'This browser has no WebAssembly.';
    return '';
  }

  function started() {
    if (worker) return worker;
    worker = new Worker(new URL(files.worker, here));
    worker.onmessage = ({data}) => {
      const {hooks, done} = open.get(data.job) || {hooks: {}, done() {}};
      if (data.type === 'text' && hooks.onText) hooks.onText(data.kind, data.text);
      if (data.type === 'figure' && hooks.onFigure) hooks.onFigure(data.url);
      if (data.type === 'progress' && hooks.onProgress) hooks.onProgress(data.text, data.count);
      if (data.type === 'done') { open.delete(data.job); done(data.result); }
    };
    worker.onerror = e => end('Python could not be started: ' + (e.message || 'no worker') + '.');
    worker.postMessage({type: 'start', files, here});
    return worker;
  }

  function end(error) {
    if (worker) worker.terminate();
    worker = null;
    for (const {done} of open.values()) done({ok: false, value: null, error, stopped: true});
    open.clear();
  }

  // Runs `code` after what was asked before, in the same names: {ok, value, error}, and, where it
  // was stopped, `stopped`. `value` is that of the last line: as JSON has it, or as Python prints it.
  function run(code, hooks = {}) {
    const why = reason();
    if (why) return Promise.resolve({ok: false, value: null, error: why});
    return new Promise(done => {
      job += 1;
      open.set(job, {hooks, done});
      started().postMessage({type: 'run', job, code, name: hooks.name, quiet: hooks.quiet,
                             check: hooks.check, place: hooks.place});
    });
  }

  // A plain static server allows no memory that page and worker share: so Python ends with what runs.
  function stop() {
    const running = open.size > 0;
    if (running) end('Stopped. Python begins anew at the next Run: the names are gone.');
    return running;
  }

  // What a line with role=status says. Screen readers read it out when `text` changes; not `count`,
  // which changes many times a second.
  function tell(status, text, count = '') {
    if (status.firstChild?.data !== text) status.textContent = text;
    let number = status.querySelector('[aria-hidden]');
    if (!number && count) {
      number = document.createElement('span');
      number.setAttribute('aria-hidden', 'true');
      status.append(number);
    }
    if (number) number.textContent = count;
  }

  window.dpSaddlePython = {reason, tell, run, stop, started: () => worker !== null};
})();
