// Plots over time that follow the scene: a cursor at the present time, and a click goes there.

const LINES = {
  light: ['#c8443f', '#2f8f4e', '#2f6fc4', '#8a5fc0', '#b7791f', '#3b8f98'],
  dark: ['#ff7b72', '#56d364', '#79b8ff', '#c297ff', '#e3b341', '#56d4dd'],
};

class Plot {
  constructor(box, film, quantity, { seek, close }) {
    this.film = film;
    this.quantity = quantity;
    this.root = element('figure', 'plot');
    const head = element('figcaption', '', this.root);
    element('b', '', head).textContent = quantity.owner;
    element('span', '', head).textContent = ` ${quantity.name} [${quantity.unit}]`;
    this.legend = element('span', 'legend', head);
    const button = element('button', 'plain', head);
    button.textContent = '×';
    button.title = 'Close this plot';
    button.addEventListener('click', () => { this.root.remove(); close(this); });
    this.canvas = element('canvas', '', this.root);
    box.append(this.root);
    const go = (event) => {
      const { left } = this.canvas.getBoundingClientRect();
      const { t } = film;
      const share = (event.clientX - left - this.left) / (this.width - this.left - 8);
      seek(t[0] + Math.min(Math.max(share, 0), 1) * (t[t.length - 1] - t[0]));
    };
    this.canvas.addEventListener('pointerdown', (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    this.canvas.addEventListener('pointermove', (event) => { if (event.buttons) go(event); });
    this.range = this.limits();
  }

  limits() {
    let [low, high] = [Infinity, -Infinity];
    for (const x of this.quantity.values) {
      if (Number.isFinite(x)) { low = Math.min(low, x); high = Math.max(high, x); }
    }
    if (!(low <= high)) return [-1, 1];
    // Rounding noise around a constant should look constant.
    const least = Math.max(1e-6 * Math.max(Math.abs(low), Math.abs(high)), 1e-12);
    const pad = Math.max(0.06 * (high - low), least);
    return [low - pad, high + pad];
  }

  draw(time, row, theme) {
    const { canvas, quantity, film: { t } } = this;
    const [w, h, dpr] = this.size ?? [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio || 1];
    if (!w || !h) return;
    if (canvas.width !== Math.round(w * dpr) || canvas.height !== Math.round(h * dpr) || theme !== this.drawn) {
      canvas.width = Math.round(w * dpr);
      canvas.height = Math.round(h * dpr);
      this.back = null;
    }
    this.drawn = theme;
    const style = getComputedStyle(canvas);
    const [ink, faint] = [style.getPropertyValue('--ink'), style.getPropertyValue('--rule')];
    const ticks = nice(this.range, 3);
    const pen = canvas.getContext('2d');
    pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    pen.font = FONT;
    this.width = w;
    this.left = 10 + Math.max(...ticks.map((x) => pen.measureText(short(x)).width));
    const [t0, t1] = [t[0], t[t.length - 1]];
    const X = (x) => this.left + ((x - t0) / (t1 - t0 || 1)) * (w - this.left - 8);
    const Y = (y) => h - 16 - ((y - this.range[0]) / (this.range[1] - this.range[0])) * (h - 22);
    this.back ??= this.lines({ dpr, ink, faint, ticks, X, Y, w, h, theme });
    pen.clearRect(0, 0, w, h);
    pen.drawImage(this.back, 0, 0, w, h);
    pen.strokeStyle = ink;
    pen.lineWidth = 1;
    line(pen, X(time), 4, X(time), h - 16);
    this.legend.replaceChildren(...quantity.components.map((name, c) => {
      const entry = element('span');
      entry.style.color = LINES[theme][c % LINES[theme].length];
      const value = quantity.values[row * quantity.components.length + c];
      entry.textContent = `${name} ${short(value, 4)}`.trim();
      return entry;
    }));
  }

  // Into a picture, with its head: left, top, width and height in pixels; `letters` is the size of
  // letters there.
  into(pen, [x, y, width, height], letters, { time, row, theme, ink }) {
    const { quantity } = this;
    const scale = letters / 11;
    const [wide, high, head] = [Math.floor(width), Math.floor(height - 1.5 * letters), Math.ceil(1.5 * letters)];
    this.size = [wide / scale, high / scale, scale];
    this.draw(time, row, theme);
    const font = (weight) => { pen.font = `${weight} ${letters}px system-ui, sans-serif`; };
    let at = x + letters;
    for (const [weight, words] of [[600, quantity.owner], [400, ` ${quantity.name} [${quantity.unit}]`]]) {
      font(weight);
      pen.fillStyle = ink;
      pen.fillText(words, at, y);
      at += pen.measureText(words).width;
    }
    // What the lines are, with what they are now where there is room for all of it.
    const entries = [...this.legend.children].map((x) => [x.textContent, x.style.color]);
    const room = x + width - letters - at;
    const sum = () => entries.reduce((n, [words]) => n + pen.measureText(`  ${words}`).width, 0);
    if (sum() > room) entries.forEach((entry, c) => { entry[0] = quantity.components[c]; });
    if (sum() <= room) {
      at = x + width - letters - sum();
      for (const [words, color] of entries) {
        at += pen.measureText('  ').width;
        pen.fillStyle = color;
        pen.fillText(words, at, y);
        at += pen.measureText(words).width;
      }
    }
    pen.drawImage(this.canvas, Math.round(x), Math.round(y) + head);
  }

  // Everything but the cursor, drawn once.
  lines({ dpr, ink, faint, ticks, X, Y, w, h, theme }) {
    const { quantity, film: { t } } = this;
    const back = document.createElement('canvas');
    [back.width, back.height] = [this.canvas.width, this.canvas.height];
    const pen = back.getContext('2d');
    pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    pen.font = FONT;
    pen.strokeStyle = faint;
    pen.fillStyle = ink;
    pen.textAlign = 'right';
    for (const y of ticks) {
      line(pen, this.left, Y(y), w - 8, Y(y));
      pen.fillText(short(y), this.left - 4, Y(y) + 3);
    }
    pen.textAlign = 'center';
    for (const x of nice([t[0], t[t.length - 1]], 5)) pen.fillText(short(x), X(x), h - 4);
    const k = quantity.components.length;
    pen.lineWidth = 1.4;
    for (let c = 0; c < k; c += 1) {
      pen.strokeStyle = LINES[theme][c % LINES[theme].length];
      pen.beginPath();
      let started = false;
      for (let n = 0; n < t.length; n += 1) {
        const y = quantity.values[n * k + c];
        const finite = Number.isFinite(y);
        if (finite && started) pen.lineTo(X(t[n]), Y(y));
        else if (finite) pen.moveTo(X(t[n]), Y(y));
        started = finite;
      }
      pen.stroke();
    }
    return back;
  }
}

const FONT = '10px system-ui, sans-serif';

function line(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

function nice([low, high], count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((x) => x >= raw);
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high + 1e-9 * step; x += step) {
    found.push(Math.abs(x) < 1e-9 * step ? 0 : x);
  }
  return found;
}

function short(x, digits = 3) {
  if (!Number.isFinite(x)) return '–';
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 1e5 || size < 1e-3) return x.toExponential(digits - 2).replace('e+', 'e');
  return String(Number(x.toPrecision(digits)));
}

function element(tag, name = '', parent = null) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  parent?.append(made);
  return made;
}
