"use strict";
// Draws the treemap. Names come from images that anybody may have made: they are only ever set as text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const map = document.getElementById("map");
  const crumbs = document.getElementById("crumbs");
  const root = d3.hierarchy(data, d => d.c).sum(d => d.c ? 0 : d.v).sort((a, b) => b.value - a.value);
  const kinds = ["program", "java", "script", "text", "data", "other"];
  const levels = 12, least = 9; // levels of folders at once; pixels of a field
  let shown = root;

  const size = n => {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let u = 0;
    for (; n >= 1023.95 && u < units.length - 1; u++) n /= 1024;
    return (u ? n.toFixed(1).replace(/\.0$/, "") : n) + " " + units[u];
  };
  const element = (tag, text, ...classes) => {
    const e = document.createElement(tag);
    e.textContent = text;
    e.classList.add(...classes);
    return e;
  };

  function draw(focus) {
    map.replaceChildren();
    const box = d3.treemap().size([map.clientWidth, map.clientHeight]).paddingTop(18).paddingInner(1).round(true)(shown.copy());
    // copy() loses the parents: fields are matched with those of the whole tree by their order.
    const whole = shown.descendants(), fields = box.descendants();
    let first = null;
    fields.forEach((field, n) => {
      const width = field.x1 - field.x0, height = field.y1 - field.y0;
      if (field.depth === 0 || field.depth > levels || width < least || height < least) return;
      const isFolder = !!field.children;
      const label = field.data.n + ", " + size(field.value);
      const cell = element(isFolder ? "button" : "div", width > 40 && height > 14 ? label : "", "cell",
        isFolder ? "folder" : kinds.includes(field.data.k) ? field.data.k : "other");
      cell.title = whole[n].ancestors().reverse().slice(1).map(a => a.data.n).join("/") + ", " + size(field.value);
      if (isFolder) {
        cell.type = "button";
        cell.setAttribute("aria-label", "open " + label);
        cell.addEventListener("click", () => open(whole[n], true));
        first ??= cell;
      }
      Object.assign(cell.style, {left: field.x0 + "px", top: field.y0 + "px", width: width + "px", height: height + "px"});
      map.append(cell);
    });
    crumbs.replaceChildren(...shown.ancestors().reverse().map(a => {
      const b = element("button", a.data.n + " (" + size(a.value) + ")");
      b.type = "button";
      if (a === shown) b.setAttribute("aria-current", "true");
      b.addEventListener("click", () => open(a, true));
      return b;
    }));
    if (focus) (first ?? crumbs.lastElementChild).focus();
  }

  function open(node, focus) {
    shown = node;
    draw(focus);
  }

  document.addEventListener("keydown", event => {
    if (event.key === "Escape" && shown.parent) open(shown.parent, true);
  });
  let width = 0;
  new ResizeObserver(() => {
    if (map.clientWidth === width) return;
    width = map.clientWidth;
    draw(false);
  }).observe(map);
  document.getElementById("legend").replaceChildren(...kinds.map(k => element("span", k, k)));
})();
