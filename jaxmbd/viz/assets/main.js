// The page around the scene: what is in it, time, plots, and what a click chooses.
/* global THREE, Stage, Plot, element, short */

const EYE = '<svg><path d="M8 4C4.5 4 2 6.5 1 8c1 1.5 3.5 4 7 4s6-2.5 7-4c-1-1.5-3.5-4-7-4zm0 6.5a2.5 2.5 0 1 1 0-5 2.5 2.5 0 0 1 0 5z"/></svg>';
const SPEEDS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
const TOGGLES = [
  ['joints', 'Joints', 'j'], ['springs', 'Springs', ''], ['reactions', 'Forces', 'f'],
  ['moments', 'Moments', 'm'], ['efforts', 'Efforts', 'e'], ['contacts', 'Contacts', 'c'], ['paths', 'Paths', 'p'],
  ['frames', 'Frames', 'k'], ['ghosts', 'Others', 'b'], ['labels', 'Names', 'n'], ['follow', 'Follow', 'o'], ['grid', 'Grid', 'g'], ['axes', 'Axes', 'a'],
];

const unpacked = async (id) => {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
};

const text = (bytes) => new TextDecoder().decode(bytes);

function numbers(packed, Kind = Float32Array) {
  return new Kind(Uint8Array.from(atob(packed), (c) => c.charCodeAt(0)).buffer);
}

function filmFrom(json) {
  const film = JSON.parse(json);
  film.t = numbers(film.t, Float64Array);
  for (const x of film.quantities) x.values = numbers(x.values);
  for (const x of film.reactions) { x.force = numbers(x.force); x.moment = numbers(x.moment); }
  film.efforts ??= []; // pages of a site may be older than the viewer that they share
  for (const x of film.efforts) x.vector = numbers(x.vector);
  for (const x of film.contacts) {
    x.point = numbers(x.point);
    x.force = numbers(x.force);
    x.state = numbers(x.state, Uint8Array);
  }
  return film;
}

class Page {
  constructor(stage, film, glb) {
    Object.assign(this, { stage, film, glb, plots: [], labels: [] });
    this.playing = false;
    this.speed = film.speed;
    this.find = (id) => document.getElementById(id);
    this.find('name').textContent = film.name;
    this.find('about').textContent = film.about;
    this.fillLists();
    this.fillToggles();
    this.wireTime();
    this.wireCamera();
    this.wirePicking();
    this.wireKeys();
    this.setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (e) => this.setTheme(e.matches ? 'dark' : 'light'));
    const asked = ['light', 'dark'].find((x) => location.hash === `#${x}`); // by a page that shows this one
    if (asked ?? film.theme) this.setTheme(asked ?? film.theme);
    new ResizeObserver(() => { stage.resize(); this.plots.forEach((p) => { p.back = null; }); }).observe(this.find('stage'));
    document.body.classList.toggle('narrow', innerWidth < 760 || innerHeight < 420);
    stage.resize();
    stage.resetCamera();
    film.plots.forEach((k) => this.addPlot(film.quantities[k]));
    for (const k of film.paths) this.trace(k, [0, 0, 0]);
    if (film.time > film.t[0]) this.seek(film.time);
    if (film.t.length < 2) document.body.classList.add('still');
    requestAnimationFrame((now) => this.frame(now));
  }

  // --- lists of what there is ---

  fillLists() {
    const kinds = { body: 'bodies', joint: 'joints', spring: 'springs' };
    for (const [kind, id] of Object.entries(kinds)) {
      const items = [...this.stage.items.values()].filter((x) => x.kind === kind);
      this.find(id).parentElement.hidden = !items.length;
      this.find(id).previousElementSibling.querySelector('i').textContent = items.length;
      for (const item of items) this.find(id).append(this.entry(item));
    }
    const select = this.find('more');
    const owners = new Map();
    this.film.quantities.forEach((quantity, k) => {
      if (!owners.has(quantity.owner)) {
        const group = element('optgroup', '', select);
        group.label = quantity.owner;
        owners.set(quantity.owner, group);
      }
      const option = element('option', '', owners.get(quantity.owner));
      option.value = k;
      option.textContent = `${quantity.owner}: ${quantity.name}`;
    });
    select.hidden = !this.film.quantities.length;
    select.addEventListener('change', () => {
      if (select.value !== '') this.addPlot(this.film.quantities[select.value]);
      select.value = '';
    });
  }

  entry(item) {
    const row = element('li');
    row.dataset.key = item.key;
    const dot = element('span', 'dot', row);
    const mesh = item.nodes.flatMap((n) => this.stage.meshesOf(n))[0];
    if (mesh) dot.style.background = `#${mesh.material.color.getHexString()}`;
    element('span', 'what', row).textContent = item.name;
    element('small', '', row).textContent = item.type ?? '';
    const eye = element('button', 'plain', row);
    eye.innerHTML = EYE;
    eye.title = 'Hide or show';
    eye.addEventListener('click', (event) => {
      event.stopPropagation();
      this.stage.hide(item.key, !item.hidden);
      row.classList.toggle('off', item.hidden);
    });
    row.addEventListener('click', () => this.select(item.key === this.stage.selected ? null : item.key));
    return row;
  }

  fillToggles() {
    const has = {
      reactions: this.film.reactions.length, moments: this.film.reactions.length,
      efforts: this.film.efforts.length, contacts: this.film.contacts.length, follow: this.film.t.length > 1, paths: this.film.t.length > 1,
      springs: [...this.stage.items.values()].some((x) => x.kind === 'spring'),
      frames: [...this.stage.items.values()].some((x) => x.kind === 'frame'),
      ghosts: [...this.stage.items.values()].some((x) => x.kind === 'ghost'),
      joints: [...this.stage.items.values()].some((x) => x.kind === 'joint'),
    };
    for (const [what, name, key] of TOGGLES) {
      if (has[what] === 0 || has[what] === false) continue;
      const label = element('label', '', this.find('toggles'));
      const box = element('input', '', label);
      box.type = 'checkbox';
      box.id = `show-${what}`;
      box.checked = { joints: true, springs: true, contacts: true, grid: true, ghosts: true }[what] ?? false;
      box.addEventListener('change', () => this.show(what, box.checked));
      label.append(name);
      label.title = key ? `Key: ${key}` : '';
    }
    this.find('scale').hidden = !(this.film.reactions.length || this.film.contacts.length || this.film.efforts.length);
    this.find('length').addEventListener('input', (event) => {
      this.stage.scale = 10 ** Number(event.target.value);
      this.stage.seek(this.stage.time);
    });
    for (const what of [...this.film.show, ...(this.film.reach > 1.01 * this.film.half ? ['follow'] : [])]) {
      const box = this.find(`show-${what}`);
      if (box && !box.checked) box.click();
    }
  }

  show(what, yes) {
    if (what === 'labels') this.setLabels(yes);
    else if (what === 'follow') this.stage.setFollow(yes);
    else if (what === 'paths') {
      this.film.bodies.forEach((_, k) => {
        const known = this.stage.traces.some((x) => x.body === k && x.center);
        if (known !== yes) this.trace(k, [0, 0, 0]);
      });
    } else this.stage.show(what, yes);
  }

  trace(body, point) {
    const lines = this.stage.theme === 'dark' ? 0.15 : -0.05;
    const color = new THREE.Color(`#${this.film.bodies[body].color}`).offsetHSL(0, 0.1, lines);
    const added = this.stage.toggleTrace(body, point, color);
    if (added) this.stage.traces.at(-1).center = point.every((x) => x === 0);
    return added;
  }

  // --- time ---

  wireTime() {
    const { t } = this.film;
    const slider = this.find('time');
    [slider.min, slider.max] = [t[0], t[t.length - 1]];
    slider.step = (t[t.length - 1] - t[0]) / 2000 || 1;
    for (const [time, text] of this.film.captions) {
      const mark = element('i', '', this.find('marks'));
      const share = (time - t[0]) / (t[t.length - 1] - t[0] || 1);
      mark.style.left = `calc(8px + ${share} * (100% - 16px))`; // the thumb is 16 px wide
      mark.title = text;
      mark.addEventListener('click', () => this.seek(time));
    }
    slider.addEventListener('input', () => this.seek(Number(slider.value)));
    this.find('play').addEventListener('click', () => this.play(!this.playing));
    this.find('start').addEventListener('click', () => this.seek(t[0]));
    const speed = this.find('speed');
    for (const x of [...new Set([...SPEEDS, this.speed])].sort((a, b) => a - b)) {
      const option = element('option', '', speed);
      option.value = x;
      option.textContent = `${x} ×`;
    }
    speed.value = this.speed;
    speed.addEventListener('change', () => { this.speed = Number(speed.value); });
  }

  seek(time) {
    this.stage.seek(time);
  }

  // To the row before or after the present one.
  step(by) {
    this.play(false);
    const [k, share] = this.stage.at;
    const next = k + by + (by < 0 && share > 0 ? 1 : 0);
    this.seek(this.film.t[Math.min(Math.max(next, 0), this.film.t.length - 1)]);
  }

  play(yes) {
    this.playing = yes && this.film.t.length > 1;
    this.find('play').firstElementChild.firstElementChild.setAttribute('d', this.playing ? 'M5 3h2v10H5zM9 3h2v10H9z' : 'M5 3l8 5-8 5z');
    this.find('play').title = this.playing ? 'Pause (space)' : 'Play (space)';
  }

  frame(now) {
    const { t } = this.film;
    if (this.playing && this.before !== undefined) {
      const next = this.stage.time + (this.speed * Math.min(now - this.before, 250)) / 1000;
      const over = next >= t[t.length - 1];
      this.seek(over ? t[this.recorder ? t.length - 1 : 0] : next);
      if (over && this.recorder) {
        this.play(false);
        this.endRecording();
      }
    }
    this.before = now;
    if (this.stage.stale) this.draw();
    requestAnimationFrame((x) => this.frame(x));
  }

  draw() {
    const { stage } = this;
    stage.render();
    const row = stage.row();
    this.find('time').value = stage.time;
    this.find('clock').textContent = `${stage.time.toFixed(this.film.digits)} s`;
    const said = this.film.captions.findLast(([time]) => time <= stage.time);
    this.find('caption').textContent = said?.[1] ?? '';
    const theme = document.documentElement.dataset.theme;
    for (const plot of this.plots) plot.draw(stage.time, row, theme);
    this.placeLabels();
    this.fillCard(row);
  }

  // --- plots ---

  addPlot(quantity) {
    if (this.plots.some((p) => p.quantity === quantity)) return;
    const plot = new Plot(this.find('plots'), this.film, quantity, {
      seek: (time) => this.seek(time),
      close: (gone) => {
        this.plots = this.plots.filter((p) => p !== gone);
        this.find('plots').hidden = !this.plots.length;
      },
    });
    this.plots.push(plot);
    this.find('plots').hidden = false;
    this.stage.stale = true;
  }

  // --- choosing ---

  wirePicking() {
    const { canvas } = this.stage;
    let down = null;
    canvas.addEventListener('pointerdown', (e) => { down = [e.clientX, e.clientY]; });
    canvas.addEventListener('pointerup', (e) => {
      if (!down || Math.hypot(e.clientX - down[0], e.clientY - down[1]) > 4) return;
      const hit = this.stage.pick(e.clientX, e.clientY);
      this.select(hit?.key ?? null, hit?.point);
    });
    canvas.addEventListener('dblclick', () => { this.stage.resetCamera(); });
  }

  select(key, point = null) {
    this.stage.select(key);
    this.picked = point;
    document.querySelectorAll('li[data-key]').forEach((x) => x.classList.toggle('on', x.dataset.key === key));
    const row = document.querySelector('li.on');
    row?.scrollIntoView({ block: 'nearest' });
    const card = this.find('card');
    card.hidden = !key;
    if (!key) return;
    const item = this.stage.items.get(key);
    const joint = this.film.joints.find((x) => item.kind === 'joint' && x.name === item.name);
    card.querySelector('h2').textContent = item.name;
    card.querySelector('p').textContent = joint
      ? `${joint.kind}: ${joint.bodies.join(' – ')}` : { body: 'Body', spring: 'Spring' }[item.kind] ?? '';
    const actions = card.querySelector('div');
    actions.replaceChildren();
    const button = (name, act, title = '') => {
      const made = element('button', '', actions);
      made.textContent = name;
      made.title = title;
      made.addEventListener('click', act);
    };
    if (item.kind === 'body' && this.film.t.length > 1) {
      const body = Number(key.split(':')[1]);
      button('Path of center', () => this.trace(body, [0, 0, 0]), 'Draw the path of the mass center');
      if (point) button('Path of point', () => this.trace(body, point), 'Draw the path of the point that was clicked');
    }
    this.film.quantities.forEach((q) => {
      if (q.kind === item.kind && q.owner === item.name) button(q.name, () => this.addPlot(q), `Plot over time [${q.unit}]`);
    });
    this.stage.stale = true;
  }

  fillCard(row) {
    const key = this.stage.selected;
    if (!key) return;
    const item = this.stage.items.get(key);
    const table = this.find('card').querySelector('dl');
    table.replaceChildren();
    const add = (name, values, unit) => {
      element('dt', '', table).textContent = name;
      element('dd', '', table).textContent = `${values.map((x) => short(x, 4)).join(', ')} ${unit}`;
    };
    for (const q of this.film.quantities) {
      if (q.kind !== item.kind || q.owner !== item.name) continue;
      const k = q.components.length;
      add(q.name, [...q.values.slice(row * k, row * k + k)], q.unit);
    }
    if (this.picked) add('point in body', this.picked, 'm');
  }

  // --- names ---

  setLabels(yes) {
    this.labels.forEach((x) => x.div.remove());
    this.labels = [];
    if (yes) {
      const items = [...this.stage.items.values()];
      const order = ['body', 'spring', 'frame', 'joint'];
      items.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
      for (const item of items) {
        if (['ground', 'ghost'].includes(item.kind) || (item.kind === 'frame' && !this.stage.shown.frames)) continue;
        const div = element('div', `label ${item.kind}`, this.find('stage'));
        div.textContent = item.name;
        this.labels.push({ div, item });
      }
    }
    this.stage.stale = true;
  }

  placeLabels() {
    const [p, placed] = [new THREE.Vector3(), []];
    for (const { div, item } of this.labels) {
      const node = item.nodes[0];
      node.getWorldPosition(p);
      p.project(this.stage.camera);
      const { clientWidth: w, clientHeight: h } = this.stage.canvas;
      const [x, y] = [0.5 * w * (1 + p.x) + 7, 0.5 * h * (1 - p.y) - 7];
      // Bodies come first; what would cover another name is left out.
      const width = 7 * item.name.length + 10;
      const free = !placed.some((o) => Math.abs(o.y - y) < 17 && x < o.x + o.width && o.x < x + width);
      div.hidden = p.z > 1 || !node.visible || !free;
      if (!div.hidden) placed.push({ x, y, width });
      div.style.transform = `translate(${x}px, ${y}px)`;
    }
  }

  // --- the rest ---

  wireCamera() {
    this.stage.controls.addEventListener('change', () => { this.stage.stale = true; });
    const click = (id, act) => this.find(id).addEventListener('click', act);
    click('fit', () => this.stage.resetCamera());
    for (const [k, axis] of ['x', 'y', 'z'].entries()) {
      click(`view-${axis}`, () => this.stage.lookAlong([0, 1, 2].map((i) => (i === k ? (axis === 'y' ? -1 : 1) : 0))));
    }
    click('theme', () => this.setTheme(this.stage.theme === 'dark' ? 'light' : 'dark'));
    click('panel-button', () => document.body.classList.toggle('narrow'));
    click('picture', () => {
      this.stage.render();
      this.stage.canvas.toBlob((blob) => this.download(blob, 'png'));
    });
    click('record', () => this.record());
    click('model', () => this.download(new Blob([this.glb], { type: 'model/gltf-binary' }), 'glb'));
  }

  download(blob, ending) {
    const link = element('a');
    link.href = URL.createObjectURL(blob);
    link.download = `${this.film.name}.${ending}`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  setTheme(name) {
    document.documentElement.dataset.theme = name;
    const { selected } = this.stage;
    this.stage.setTheme(name);
    if (selected) this.stage.select(selected);
  }

  wireKeys() {
    const press = (id) => this.find(id)?.click();
    addEventListener('keydown', (event) => {
      if (event.target.matches('input[type=text], select') || event.ctrlKey || event.metaKey || event.altKey) return;
      const toggle = TOGGLES.find(([, , key]) => key && key === event.key);
      if (event.key === ' ') this.play(!this.playing);
      else if (event.key === 'ArrowRight') this.step(1);
      else if (event.key === 'ArrowLeft') this.step(-1);
      else if (event.key === 'Home') this.seek(this.film.t[0]);
      else if (event.key === 'Escape') this.select(null);
      else if (event.key === 'r') press('fit');
      else if (event.key === 't') press('theme');
      else if (['x', 'y', 'z'].includes(event.key)) press(`view-${event.key}`);
      else if (toggle) press(`show-${toggle[0]}`);
      else return;
      event.preventDefault();
    });
  }

  // --- pictures and films that are made without a person ---

  // A picture of that many pixels: the window's own size no longer counts.
  pose(width, height) {
    this.play(false);
    const { stage } = this;
    // Plots stand side by side below the scene, as many as have room.
    this.side = this.plots.slice(0, Math.max(1, Math.floor(width / 300)));
    this.strip = this.side.length ? Math.round(0.3 * height) : 0;
    stage.renderer.setPixelRatio(1);
    stage.renderer.setSize(width, height - this.strip, false);
    stage.camera.aspect = width / (height - this.strip);
    stage.camera.updateProjectionMatrix();
    stage.resize = () => {};
    document.querySelector('main').hidden = true; // what nobody sees is not drawn
    stage.resetCamera();
    this.paper = element('canvas');
    Object.assign(this.paper, { width, height });
  }

  // The scene at a time with its name, its time, what was said last and the plots, as base64.
  image(time, kind, quality) {
    this.seek(time);
    const { stage, paper, film } = this;
    stage.render();
    const pen = paper.getContext('2d', { willReadFrequently: true });
    const size = Math.max(11, Math.round(Math.min(paper.height / 36, paper.width / 48)));
    const ink = getComputedStyle(document.documentElement);
    pen.drawImage(stage.canvas, 0, 0);
    pen.textBaseline = 'top';
    const write = (words, x, y, weight, color) => {
      pen.font = `${weight} ${size}px system-ui, sans-serif`;
      pen.fillStyle = ink.getPropertyValue(color);
      pen.fillText(words, x, y);
    };
    write(film.name, size, size, 600, '--ink');
    if (film.t.length > 1) write(`t = ${time.toFixed(Math.min(film.digits, 2))} s`, size, 2.4 * size, 400, '--soft');
    const said = film.captions.findLast(([at]) => at <= time);
    if (said) write(said[1], size, 3.8 * size, 400, '--ink');
    const top = paper.height - this.strip;
    if (this.strip) {
      pen.fillStyle = ink.getPropertyValue('--back');
      pen.fillRect(0, top, paper.width, this.strip);
    }
    const [wide, now] = [paper.width / this.side.length, { time, row: stage.row(), theme: stage.theme, ink: ink.getPropertyValue('--ink') }];
    this.side.forEach((plot, k) => {
      plot.into(pen, [k * wide, top + 0.5 * size, wide, this.strip - 0.5 * size], 0.85 * size, now);
    });
    return paper.toDataURL(kind, quality).split(',')[1];
  }

  // From the start to the end as it is seen, in real time, for the person who pressed the button.
  record() {
    if (this.recorder) { this.recorder.stop(); return; }
    const kind = ['video/webm;codecs=vp9', 'video/webm', 'video/mp4'].find((x) => MediaRecorder.isTypeSupported(x));
    const recorder = new MediaRecorder(this.stage.canvas.captureStream(), { mimeType: kind, videoBitsPerSecond: 8e6 });
    const parts = [];
    recorder.addEventListener('dataavailable', (event) => parts.push(event.data));
    recorder.addEventListener('stop', () => {
      this.recorder = null;
      document.body.classList.remove('recording');
      this.play(false);
      const got = new Blob(parts, { type: kind });
      if (got.size) this.download(got, kind.slice(6).split(';')[0]);
      else this.find('caption').textContent = 'This browser recorded no picture.';
    });
    this.seek(this.film.t[0]);
    this.recorder = recorder;
    document.body.classList.add('recording');
    recorder.start(1000);
    this.play(true);
  }

  // The last pictures are still on their way, and of a short motion a slow machine has perhaps not encoded one: 30 s at most.
  endRecording(turns = 100) {
    const { recorder } = this;
    let size = 0;
    recorder.addEventListener('dataavailable', (event) => { size += event.data.size; });
    const look = (left) => setTimeout(() => {
      if (recorder.state === 'inactive') return;
      if (size || !left) { recorder.stop(); return; }
      this.draw();
      recorder.requestData();
      look(left - 1);
    }, 300);
    recorder.requestData();
    look(turns);
  }

  // Frames per second while the motion plays: what the picture itself takes.
  async measure(frames = 60) {
    const { t } = this.film;
    const gl = this.stage.renderer.getContext();
    const pixel = new Uint8Array(4);
    const began = performance.now();
    for (let k = 0; k < frames; k += 1) {
      this.seek(t[0] + (k / frames) * (t[t.length - 1] - t[0]));
      this.draw();
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel); // waits until it is drawn
    }
    return (1000 * frames) / (performance.now() - began);
  }
}

async function start() {
  if (document.getElementById('three')) {
    const code = document.createElement('script');
    code.textContent = text(await unpacked('three'));
    document.head.append(code);
  }
  const film = filmFrom(text(await unpacked('film')));
  const glb = await unpacked('glb');
  const stage = await Stage.create(document.getElementById('canvas'), glb, film);
  window.view = new Page(stage, film, glb);
  document.body.classList.remove('loading');
  if (film.autoplay) window.view.play(true);
}

start().catch((error) => {
  document.getElementById('trouble').textContent = `This page cannot be shown here: ${error.message ?? error}. `
    + 'It needs a browser with WebGL, of 2023 or newer.';
  document.body.classList.add('failed');
  throw error;
});
