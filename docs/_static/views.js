// Films play while they are seen; their link puts the view itself in their place.
addEventListener('DOMContentLoaded', () => {
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) target.play().catch(() => { target.controls = true; });
      else target.pause();
    }
  }, { threshold: 0.4 });
  for (const figure of document.querySelectorAll('figure.view')) {
    const film = figure.querySelector('video');
    if (!still) {
      film.controls = false;
      seen.observe(film);
    }
    const link = figure.querySelector('figcaption a');
    link.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // into a window of its own
      event.preventDefault();
      const frame = figure.querySelector('iframe');
      if (frame) {
        frame.replaceWith(film);
        link.textContent = 'Turn it in 3D';
        return;
      }
      const dark = document.body.dataset.theme === 'dark'
        || (document.body.dataset.theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
      const made = document.createElement('iframe');
      made.src = `${figure.dataset.view}#${dark ? 'dark' : 'light'}`;
      made.title = film.getAttribute('aria-label');
      made.allow = 'fullscreen';
      film.replaceWith(made);
      link.textContent = 'Back to the film';
    });
  }
});
