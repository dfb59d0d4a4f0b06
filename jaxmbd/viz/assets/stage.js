// The scene: bodies, joints, arrows of forces, paths of points, and the camera that looks at them.
//
// Everything is in the mechanism's own coordinates, inside `world`, which turns its up to y. The
// poses come from the animation of the binary glTF; this file finds no others.
/* global THREE */

const THEMES = {
  light: { sky: 0xf6f7f9, grid: 0xc9ced6, grid2: 0xdfe3e8, line: 0x39424e, lit: 0xffffff },
  dark: { sky: 0x171a1f, grid: 0x3a414c, grid2: 0x272c34, line: 0xc6ced9, lit: 0xffffff },
};
const ARROWS = { reaction: 0xd6403a, moment: 0x8a4fd0, effort: 0x1791a8, stick: 0x2f9e55, slide: 0xe08a1e };
const STATES = ['open', 'sticks', 'slides'];

class Stage {
  static async create(canvas, glb, film) {
    const stage = new Stage(canvas, film);
    await stage.load(glb);
    return stage;
  }

  constructor(canvas, film) {
    this.canvas = canvas;
    this.film = film;
    // Smooth edges take half of the time where no graphics card draws.
    const antialias = location.hash === '#film' || !drawsInSoftware();
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias, preserveDrawingBuffer: true });
    this.scene = new THREE.Scene();
    const { fov } = film.camera;
    this.camera = new THREE.PerspectiveCamera(fov, 1, film.half * 0.01, film.half * 100 + film.reach * 20);
    this.controls = new THREE.OrbitControls(this.camera, canvas);
    this.controls.enableDamping = false;
    this.controls.zoomToCursor = true;
    this.world = new THREE.Group();
    this.scene.add(this.world);
    const sky = new THREE.HemisphereLight(0xffffff, 0x8d939c, 1.5);
    this.sun = new THREE.DirectionalLight(0xffffff, 2.1);
    this.camera.add(this.sun);
    this.sun.position.set(-0.6, 1.0, 0.8);
    this.scene.add(sky, this.camera);
    this.time = film.t[0];
    this.shown = { joints: true, springs: true, reactions: false, moments: false, efforts: false, contacts: true };
    this.scale = 1;
    this.traces = [];
    this.selected = null;
    this.turned = new THREE.Quaternion();
  }

  // --- what is loaded ---

  async load(glb) {
    const gltf = await new THREE.GLTFLoader().parseAsync(glb, '');
    const { json } = gltf.parser;
    this.nodes = await Promise.all(json.nodes.map((_, k) => gltf.parser.getDependency('node', k)));
    const root = this.nodes[this.nodes.length - 1];
    this.world.quaternion.copy(root.quaternion);
    this.turned.copy(root.quaternion);
    while (root.children.length) this.world.add(root.children[0]);
    this.channels = [];
    for (const { sampler, target } of json.animations?.[0].channels ?? []) {
      const { output } = json.animations[0].samplers[sampler];
      const { array } = await gltf.parser.getDependency('accessor', output);
      const node = this.nodes[target.node];
      const value = { translation: node.position, rotation: node.quaternion, scale: node.scale };
      this.channels.push({ array, path: target.path, node, value: value[target.path] });
    }
    this.items = new Map(); // "body:3", "joint:pin" -> { kind, name, nodes }
    this.nodes.slice(0, -1).forEach((node, k) => this.register(node, json.nodes[k]));
    for (const { kind, nodes } of this.items.values()) if (kind === 'frame') nodes.forEach((n) => { n.visible = false; });
    this.addFloor();
    this.addArrows();
    this.resetCamera();
    this.seek(this.time);
  }

  register(node, { name, extras }) {
    const kind = { link: 'joint', gap: 'joint' }[extras.kind] ?? extras.kind;
    const key = kind === 'body' ? `body:${extras.body}` : `${kind}:${extras.joint ?? name}`;
    if (!this.items.has(key)) this.items.set(key, { key, kind, name: extras.joint ?? name, nodes: [] });
    const item = this.items.get(key);
    item.nodes.push(node);
    item.type = extras.type;
    node.userData = { key, part: Boolean(extras.part) };
    node.rotation.order = 'XYZ';
    for (const mesh of this.meshesOf(node)) {
      mesh.material = mesh.material.clone(); // so that one thing can be lit alone
      mesh.userData = { key };
      if (mesh.material.transparent) {
        mesh.material.depthWrite = false;
        mesh.renderOrder = 1;
      }
    }
  }

  // Meshes of a node itself, not of the joints that it carries.
  meshesOf(node) {
    const own = (x) => x.isMesh || (x.isGroup && !x.userData?.key);
    const found = node.isMesh ? [node] : [];
    for (const child of node.children) {
      if (child.isMesh && !this.nodes.includes(child)) found.push(child);
      else if (own(child) && !this.nodes.includes(child)) found.push(...this.meshesOf(child));
    }
    return found;
  }

  addFloor() {
    const { half, reach, middle, floor } = this.film;
    const step = 10 ** Math.floor(Math.log10(half * 0.9));
    const cell = [1, 2, 5, 10].map((m) => m * step).find((x) => half / x <= 5) ?? step;
    const count = Math.min(Math.ceil(Math.max(2.4 * half, 1.3 * reach) / cell), 120);
    const lines = [[], []];
    for (let k = -count; k <= count; k += 1) {
      const [a, b] = [k * cell, count * cell];
      lines[k % 5 ? 1 : 0].push(a, 0, -b, a, 0, b, -b, 0, a, b, 0, a);
    }
    this.grid = new THREE.Group();
    for (const [k, own] of lines.entries()) {
      const geometry = new THREE.BufferGeometry();
      geometry.setAttribute('position', new THREE.Float32BufferAttribute(own, 3));
      const material = new THREE.LineBasicMaterial();
      material.userData.theme = ['grid', 'grid2'][k];
      this.grid.add(new THREE.LineSegments(geometry, material));
    }
    const center = new THREE.Vector3(...middle).applyQuaternion(this.turned);
    this.grid.position.set(...['x', 'z'].map((a) => Math.round(center[a] / cell) * cell));
    this.grid.position.set(this.grid.position.x, floor - half * 2e-3, this.grid.position.y);
    this.scene.add(this.grid);
    this.cell = cell;
    this.axes = new THREE.AxesHelper(0.35 * half);
    this.axes.visible = false;
    this.world.add(this.axes);
    this.planes = new THREE.Group();
    for (const { point, normal } of this.film.planes) {
      const geometry = new THREE.PlaneGeometry(2.6 * half, 2.6 * half);
      const material = new THREE.MeshStandardMaterial({
        color: 0x8d97a5, transparent: true, opacity: 0.28, side: THREE.DoubleSide, depthWrite: false,
      });
      const plane = new THREE.Mesh(geometry, material);
      plane.quaternion.setFromUnitVectors(new THREE.Vector3(0, 0, 1), new THREE.Vector3(...normal));
      plane.position.set(...point);
      this.planes.add(plane);
    }
    this.world.add(this.planes);
  }

  // --- arrows ---

  addArrows() {
    const { size } = this.film;
    const shaft = new THREE.CylinderGeometry(0.28 * size, 0.28 * size, 1, 12);
    shaft.translate(0, 0.5, 0);
    const tip = new THREE.ConeGeometry(0.85 * size, 2.2 * size, 16);
    tip.translate(0, -1.1 * size, 0);
    this.arrowParts = { shaft, tip };
    this.arrows = this.film.reactions.flatMap((reaction) => ['force', 'moment'].map((what) => ({
      shown: what === 'force' ? 'reactions' : 'moments', what, values: reaction[what],
      of: reaction.of, at: reaction.point, ...this.arrow(what === 'force' ? 'reaction' : 'moment'),
    })));
    const efforts = ['force', 'moment'].map((what) => this.film.efforts.filter((x) => x.kind === what));
    this.arrows.push(...efforts.flat().map((x) => ({
      shown: 'efforts', what: `effort ${x.kind}`, values: x.vector, of: x.of, at: x.point, ...this.arrow('effort'),
    })));
    const dot = new THREE.SphereGeometry(0.75 * size, 16, 12);
    this.contacts = this.film.contacts.flatMap((contact) => Array.from({ length: contact.n }, (_, n) => {
      const mark = new THREE.Mesh(dot, new THREE.MeshBasicMaterial({ color: ARROWS.stick }));
      mark.visible = false;
      this.world.add(mark);
      return { contact, n, mark, ...this.arrow('stick') };
    }));
    this.largest = { force: largest(this.film.reactions.map((x) => x.force)),
      moment: largest(this.film.reactions.map((x) => x.moment)),
      'effort force': largest(efforts[0].map((x) => x.vector)),
      'effort moment': largest(efforts[1].map((x) => x.vector)),
      contact: largest(this.film.contacts.map((x) => x.force)) };
  }

  arrow(kind) {
    const material = new THREE.MeshBasicMaterial({ color: ARROWS[kind] });
    const group = new THREE.Group();
    const shaft = new THREE.Mesh(this.arrowParts.shaft, material);
    const tip = new THREE.Mesh(this.arrowParts.tip, material);
    group.add(shaft, tip);
    group.visible = false;
    this.world.add(group);
    return { group, shaft, tip, material };
  }

  point(arrow, from, vector, most) {
    const size = vector.length();
    // The peak of an impact would leave the picture.
    const length = most > 0 ? 0.55 * this.film.half * this.scale * Math.min(size / most, 2) : 0;
    arrow.group.visible = length > 0.02 * this.film.half;
    if (!arrow.group.visible) return;
    arrow.group.position.copy(from);
    arrow.group.quaternion.setFromUnitVectors(new THREE.Vector3(0, 1, 0), vector.divideScalar(size));
    const tip = Math.min(2.2 * this.film.size, 0.5 * length) / (2.2 * this.film.size);
    arrow.shaft.scale.set(1, Math.max(length - 2.0 * this.film.size * tip, 1e-9), 1);
    arrow.tip.position.set(0, length, 0);
    arrow.tip.scale.setScalar(tip);
  }

  moveArrows() {
    const body = new THREE.Vector3();
    for (const arrow of this.arrows) {
      arrow.group.visible = false;
      if (!this.shown[arrow.shown]) continue;
      body.set(...arrow.at);
      this.place(arrow.of, body);
      this.point(arrow, body, this.vector(arrow.values, 3, 0), this.largest[arrow.what]);
    }
    for (const arrow of this.contacts) {
      const { contact, n, mark, material } = arrow;
      const state = contact.state[this.row() * contact.n + n];
      mark.visible = this.shown.contacts && state > 0;
      arrow.group.visible = false;
      if (!mark.visible) continue;
      const color = state === 1 ? ARROWS.stick : ARROWS.slide;
      material.color.set(color);
      mark.material.color.set(color);
      mark.position.copy(this.vector(contact.point, 3 * contact.n, 3 * n));
      this.point(arrow, mark.position, this.vector(contact.force, 3 * contact.n, 3 * n), this.largest.contact);
    }
  }

  // A point of a body (nb for the ground) to where it is now, in the mechanism's coordinates.
  place(body, point) {
    const node = this.items.get(`body:${body}`)?.nodes[0];
    if (node) point.applyQuaternion(node.quaternion).add(node.position);
    return point;
  }

  // --- time ---

  // The row at or before the present time, and how far to the next one.
  locate() {
    const { t } = this.film;
    let [low, high] = [0, t.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (t[middle] <= this.time) low = middle;
      else high = middle;
    }
    if (high === low) return [low, 0];
    const share = (this.time - t[low]) / (t[high] - t[low]);
    return share >= 1 ? [high, 0] : [low, Math.max(share, 0)];
  }

  // The row that was reached last: forces and states are those of a step, not between two.
  row() {
    return this.at[0];
  }

  vector(values, width, offset) {
    const k = this.row() * width + offset;
    return new THREE.Vector3(values[k], values[k + 1], values[k + 2]);
  }

  seek(time) {
    const { t } = this.film;
    this.time = Math.min(Math.max(time, t[0]), t[t.length - 1]);
    this.at = this.locate();
    const [k, share] = this.at;
    for (const { array, path, value } of this.channels) {
      const width = path === 'rotation' ? 4 : 3;
      const [a, b] = [k * width, share ? (k + 1) * width : k * width];
      if (width === 4) {
        const out = [];
        THREE.Quaternion.slerpFlat(out, 0, array, a, array, b, share);
        value.fromArray(out);
      } else {
        value.set(...[0, 1, 2].map((i) => array[a + i] + share * (array[b + i] - array[a + i])));
      }
    }
    this.moveArrows();
    if (this.follow) this.keepUp();
    for (const trace of this.traces) trace.past.geometry.setDrawRange(0, k + 1);
    this.stale = true;
  }

  // The middle of all bodies, in space.
  center() {
    const sum = new THREE.Vector3();
    const bodies = [...this.items.values()].filter((x) => x.kind === 'body');
    for (const { nodes } of bodies) sum.add(nodes[0].position);
    return sum.divideScalar(bodies.length).applyQuaternion(this.turned);
  }

  setFollow(yes) {
    this.follow = yes;
    this.was = this.center();
  }

  // Moves the camera along with the bodies.
  keepUp() {
    const now = this.center();
    const moved = now.clone().sub(this.was);
    this.was = now;
    this.camera.position.add(moved);
    this.controls.target.add(moved);
    this.controls.update();
  }

  // --- paths of points ---

  // The path of a point of a body, drawn to the present time; asked for again, it goes.
  toggleTrace(body, point, color) {
    const key = `${body}:${point.map((x) => x.toPrecision(6))}`;
    const known = this.traces.findIndex((x) => x.key === key);
    if (known >= 0) {
      const [{ group }] = this.traces.splice(known, 1);
      this.world.remove(group);
      this.stale = true;
      return false;
    }
    const node = this.items.get(`body:${body}`).nodes[0];
    const own = (path) => this.channels.find((c) => c.node === node && c.path === path)?.array;
    const [moves, turns] = [own('translation'), own('rotation')];
    const places = [];
    for (let k = 0; k < this.film.t.length; k += 1) {
      const p = new THREE.Vector3(...point);
      p.applyQuaternion(turns ? new THREE.Quaternion().fromArray(turns, 4 * k) : node.quaternion);
      p.add(moves ? new THREE.Vector3().fromArray(moves, 3 * k) : node.position);
      places.push(p.x, p.y, p.z);
    }
    const group = new THREE.Group();
    const lines = [0.3, 1].map((opacity) => {
      const geometry = new THREE.BufferGeometry();
      geometry.setAttribute('position', new THREE.Float32BufferAttribute(places, 3));
      const material = new THREE.LineBasicMaterial({ color, transparent: true, opacity });
      const line = new THREE.Line(geometry, material);
      line.frustumCulled = false;
      group.add(line);
      return line;
    });
    this.world.add(group);
    this.traces.push({ key, body, group, past: lines[1] });
    this.seek(this.time);
    return true;
  }

  // --- what is seen ---

  setTheme(name) {
    const theme = THEMES[name];
    this.theme = name;
    this.renderer.setClearColor(theme.sky);
    this.grid.children.forEach((x) => x.material.color.set(theme[x.material.userData.theme]));
    this.stale = true;
  }

  show(what, yes) {
    this.shown[what] = yes;
    for (const item of this.items.values()) {
      if (what === 'joints' && item.kind === 'joint') {
        item.nodes.forEach((n) => { if (!n.userData.part) n.visible = yes && !item.hidden; });
      }
      if (what === 'frames' && item.kind === 'frame') item.nodes.forEach((n) => { n.visible = yes; });
      if (what === 'ghosts' && item.kind === 'ghost') item.nodes.forEach((n) => { n.visible = yes; });
      if (what === 'springs' && item.kind === 'spring') item.nodes.forEach((n) => { n.visible = yes; });
    }
    if (what === 'grid') { this.grid.visible = yes; this.planes.visible = yes; }
    if (what === 'axes') this.axes.visible = yes;
    this.seek(this.time);
  }

  // A body hides with the joints it carries; a joint alone.
  hide(key, hidden) {
    const item = this.items.get(key);
    item.hidden = hidden;
    item.nodes.forEach((n) => { n.visible = !hidden; });
    this.stale = true;
  }

  select(key) {
    const paint = (chosen, lit) => {
      for (const node of this.items.get(chosen)?.nodes ?? []) {
        for (const mesh of this.meshesOf(node)) mesh.material.emissive?.set(lit);
      }
    };
    if (this.selected) paint(this.selected, 0x000000);
    this.selected = key;
    if (key) paint(key, this.theme === 'dark' ? 0x7a5200 : 0xa05f00);
    this.stale = true;
  }

  // What is under a point of the picture, with the place on it in the frame of its body.
  pick(x, y) {
    const box = this.canvas.getBoundingClientRect();
    const at = new THREE.Vector2(((x - box.left) / box.width) * 2 - 1, 1 - ((y - box.top) / box.height) * 2);
    const ray = new THREE.Raycaster();
    ray.setFromCamera(at, this.camera);
    const solid = this.nodes.slice(0, -1).filter((n) => !n.userData.key.startsWith('ghost'))
      .flatMap((n) => this.meshesOf(n)).filter((m) => visible(m));
    const hits = ray.intersectObjects(solid, false);
    const hit = hits.find((h) => !h.object.material.transparent) ?? hits[0];
    if (!hit) return null;
    const { key } = hit.object.userData;
    const [kind, body] = key.split(':');
    const frame = kind === 'body' ? this.items.get(`body:${body}`).nodes[0] : null;
    return { key, point: frame ? frame.worldToLocal(hit.point.clone()).toArray() : null };
  }

  resetCamera() {
    const { from, target } = this.film.camera;
    const turned = (x) => new THREE.Vector3(...x).applyQuaternion(this.turned);
    this.lookFrom(turned(from), turned(target));
    if (this.follow) {
      const [time, now] = [this.time, this.center()];
      this.follow = false;
      this.seek(this.film.t[0]);
      const moved = now.sub(this.center());
      this.camera.position.add(moved);
      this.controls.target.add(moved);
      this.seek(time);
      this.setFollow(true);
    }
    this.controls.update();
    this.stale = true;
  }

  // Along an axis of the mechanism, so that planar ones are seen as they are drawn.
  lookAlong(axis) {
    const turned = (x) => new THREE.Vector3(...x).applyQuaternion(this.turned);
    const from = turned(axis);
    from.z += 1e-4; // exactly from above, "up" would have no direction
    this.lookFrom(from.normalize(), turned(this.film.camera.target));
    this.controls.update();
    this.stale = true;
  }

  // From a direction, so that everything fills the picture.
  lookFrom(away, target) {
    const { outermost, half } = this.film;
    const right = new THREE.Vector3(0, 1, 0).cross(away).normalize();
    const up = away.clone().cross(right);
    const slope = 0.87 * Math.tan((this.camera.fov * Math.PI) / 360);
    const points = [];
    for (let k = 0; k < outermost.length; k += 3) {
      points.push(new THREE.Vector3(...outermost.slice(k, k + 3)).multiplyScalar(half).applyQuaternion(this.turned));
    }
    let distance = 0;
    // What is near looks larger: the middle of the picture follows.
    for (let n = 0; n < 4; n += 1) {
      const seen = points.map((p) => [right, up, away].map((axis) => axis.dot(p.clone().sub(target))));
      const needs = ([x, y, z]) => z + Math.max(Math.abs(y), Math.abs(x) / this.camera.aspect) / slope;
      distance = Math.max(0.05 * half, ...seen.map(needs));
      for (const [i, axis] of [right, up].entries()) {
        const at = seen.map((p) => p[i] / Math.max(distance - p[2], 1e-9));
        target.addScaledVector(axis, 0.5 * distance * (Math.max(...at) + Math.min(...at)));
      }
    }
    this.controls.target.copy(target);
    this.camera.position.copy(target).addScaledVector(away, distance);
  }

  resize() {
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!w || !h) return;
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
    this.renderer.setSize(w, h, false);
    this.camera.aspect = w / h;
    this.camera.updateProjectionMatrix();
    this.stale = true;
  }

  render() {
    this.renderer.render(this.scene, this.camera);
    this.stale = false;
  }

  // Where a point of the mechanism is in the picture, in pixels of the page.
  project(point) {
    const p = new THREE.Vector3(...point).applyQuaternion(this.turned).project(this.camera);
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    return [0.5 * w * (1 + p.x), 0.5 * h * (1 - p.y), p.z];
  }
}

function drawsInSoftware() {
  const gl = document.createElement('canvas').getContext('webgl2');
  const known = gl?.getExtension('WEBGL_debug_renderer_info');
  const name = known ? gl.getParameter(known.UNMASKED_RENDERER_WEBGL) : '';
  gl?.getExtension('WEBGL_lose_context')?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(name);
}

function visible(object) {
  for (let x = object; x; x = x.parent) if (!x.visible) return false;
  return true;
}

// A large value of the vectors in some arrays, below the peaks of impacts.
function largest(arrays) {
  const sizes = [];
  for (const array of arrays) {
    for (let k = 0; k < array.length; k += 3) {
      const size = Math.hypot(array[k], array[k + 1], array[k + 2]);
      if (size > 0) sizes.push(size);
    }
  }
  sizes.sort((a, b) => a - b);
  return sizes[Math.floor(0.98 * (sizes.length - 1))] ?? 0;
}
