// Sets light or dark before the first paint, if somebody has chosen one: it is loaded before anything is drawn.
(() => {
  try {
    const theme = localStorage.getItem('hlx.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // A browser that stores nothing has its own theme.
  }
})();
