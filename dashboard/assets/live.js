// Keeps a page of the dashboard up to date. The server writes the pages, and sends what has changed of them; this
// puts it in place, so that the focus, what was typed and what was opened stay as they are. Without it a page is
// complete, and loads itself again.
(() => {
  'use strict';
  const byID = (id) => document.getElementById(id);
  const state = byID('state'), toggle = byID('toggle'), say = byID('say'), form = document.querySelector('form[data-live]');
  if (!state || !toggle || !window.EventSource) return;
  document.documentElement.classList.add('script');

  // Times are those of Redis' clock: the server says what it shows, and this adds what has passed since.
  let clock = Number(document.body.dataset.now) - performance.now();
  const now = () => clock + performance.now();

  const two = (n) => String(n).padStart(2, '0');
  const span = (ms) => {
    const s = Math.floor(Math.max(0, ms) / 1000);
    if (s < 1) return '<1s';
    if (s < 60) return s + 's';
    if (s < 3600) return Math.floor(s / 60) + 'm ' + two(s % 60) + 's';
    if (s < 86400) return Math.floor(s / 3600) + 'h ' + two(Math.floor(s / 60) % 60) + 'm';
    return Math.floor(s / 86400) + 'd ' + two(Math.floor(s / 3600) % 24) + 'h';
  };
  const tick = (root) => {
    for (const e of root.querySelectorAll('.tick')) {
      const since = e.dataset.since;
      const text = span(since ? now() - Number(since) : Number(e.dataset.until) - now());
      if (e.textContent !== text) e.textContent = text;
    }
  };

  // A row does not move away from under a pointer that is about to click it.
  let moved = 0, pointed = 0;
  addEventListener('pointermove', (e) => {
    pointed = performance.now();
    if (e.pointerType === 'mouse' && e.target.closest?.('#live')) moved = pointed;
  }, { passive: true });
  const order = (root) => [...root.querySelectorAll('#live tr[id], #alert section')].map((e) => e.id || e.ariaLabel).join(' ');

  // What stands above the rows keeps the height that it had: the lead as long as the page is open, an alert that has
  // gone until the pointer has rested for a while.
  const reserve = () => {
    for (const id of ['alert', 'lead']) {
      const part = byID(id);
      if (!part) continue;
      if (id === 'alert' && !part.firstElementChild && performance.now() - pointed > 10000) part.style.minHeight = '';
      const height = part.getBoundingClientRect().height;
      if (height > 0) part.style.minHeight = height + 'px';
    }
  };
  addEventListener('resize', () => { for (const id of ['alert', 'lead']) byID(id)?.style.removeProperty('min-height'); });
  let waiting = null, timer = 0, heldSince = 0;
  const put = (page) => {
    const rest = moved + 1000 - performance.now();
    const live = byID('live');
    if (rest > 0 && live && performance.now() - (heldSince || performance.now()) < 5000 && order(document) !== order(page)) {
      heldSince = heldSince || performance.now();
      waiting = page;
      clearTimeout(timer);
      timer = setTimeout(() => put(waiting), rest);
      return;
    }
    clearTimeout(timer);
    heldSince = 0;
    tick(page);
    for (const part of [...page.children]) {
      const old = byID(part.id);
      if (!old) continue;
      Idiomorph.morph(old, part, {
        ignoreActiveValue: true,
        callbacks: { beforeAttributeUpdated: (name, node) => name !== 'style' && !(name === 'open' && node.tagName === 'DETAILS') },
      });
    }
    reserve();
    speak();
  };

  // A screen reader is told what matters, and not more often than every ten seconds.
  let said = '', spoken = -1e9;
  const speak = () => {
    const text = [...document.querySelectorAll('#alert h2, #lead .lead')].map((e) => e.textContent).join('. ');
    if (text === said || performance.now() - spoken < 10000) return;
    if (said) say.textContent = text;
    said = text;
    spoken = performance.now();
  };

  let source = null, again = 0, paused = 'paused' in document.body.dataset;
  const show = (text) => { if (state.textContent !== text) state.textContent = text; };
  const close = () => {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  };
  const open = (once) => {
    close();
    if (paused && !once) return show('Paused');
    source = new EventSource(location.href);
    source.addEventListener('page', (e) => {
      const t = document.createElement('template');
      t.innerHTML = e.data;
      put(t.content);
      document.body.dataset.pages = Number(document.body.dataset.pages || 0) + 1;
      if (once) { close(); show('Paused'); }
    });
    source.addEventListener('beat', (e) => {
      const end = e.data.indexOf('\n');
      clock = Number(e.data.slice(0, end)) - performance.now();
      byID('foot').innerHTML = e.data.slice(end + 1);
      if (!once) show('Live');
    });
    source.onerror = () => {
      show('No connection');
      if (source && source.readyState === EventSource.CLOSED) again = setTimeout(() => open(once), 5000);
    };
  };

  const address = (change) => {
    const url = new URL(location.href);
    change(url.searchParams);
    history.replaceState(null, '', url);
  };
  toggle.addEventListener('click', (e) => {
    e.preventDefault();
    paused = !paused;
    address((q) => paused ? q.set('paused', '1') : q.delete('paused'));
    toggle.textContent = paused ? 'Go on' : 'Pause';
    open(false);
  });
  if (form) {
    let typing = 0;
    const search = () => {
      address((q) => {
        for (const key of new Set([...form.elements].map((e) => e.name))) if (key && key !== 'paused') q.delete(key);
        for (const [key, value] of new FormData(form)) if (value && key !== 'paused') q.set(key, value);
      });
      open(paused);
    };
    form.addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(search, 250); });
    form.addEventListener('submit', (e) => { e.preventDefault(); clearTimeout(typing); search(); });
  }

  document.addEventListener('visibilitychange', () => document.hidden ? close() : open(false));
  setInterval(() => { if (!paused) tick(document); }, 250);
  setInterval(reserve, 2000);
  tick(document);
  reserve();
  speak();
  open(false);
})();
