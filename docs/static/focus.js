// Formulas that are wider than the page can be scrolled by the keyboard too.
window.addEventListener('load', () => {
  if (!window.MathJax || !MathJax.startup) return;
  MathJax.startup.promise.then(() => document.querySelectorAll('mjx-container[display="true"]').forEach(e => { e.tabIndex = 0; }));
});
