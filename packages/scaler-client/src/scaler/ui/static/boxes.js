// The boxes of a graph as SVG, as long as they are not too many: each with its name, a group with its counts.
import { count } from "./format.js";
import { ENDED, ORDER, calledOf, countsOf, cut, write } from "./graphwords.js";
import { STATE } from "./layout.js";

const SVG = "http://www.w3.org/2000/svg";
const FAILED_WIDE = 6;  // in the bar of a group, where one failure of a thousand would have no pixel

export class Boxes {
  constructor(picture) {
    const { boxes, spots, sizes: { wide, high, isDense }, width, height } = this.picture = picture;
    this.element = made("svg", {
      "aria-hidden": "true", class: isDense ? "dense" : "", viewBox: `0 0 ${width} ${height}`,
    });
    this.edges = [];
    boxes.forEach((box, index) => {
      for (const one of box.needs) {
        const from = spots[one].x + wide, fromY = spots[one].y + high / 2;
        const to = spots[index].x, toY = spots[index].y + high / 2, half = (from + to) / 2;
        const path = made("path", { d: `M${from} ${fromY}C${half} ${fromY} ${half} ${toY} ${to} ${toY}` });
        this.edges.push([one, index, path]);
        this.element.append(path);
      }
    });
    this.parts = boxes.map((box, index) => this.part(box, index));
    this.element.append(...this.parts.map((part) => part.group));
  }

  part(box, index) {
    const { picture } = this;
    const { spots, sizes: { wide, high, isDense }, graph: { nodes } } = picture;
    const group = made("g", { transform: `translate(${spots[index].x} ${spots[index].y})` });
    const part = { group };
    group.append(made("rect", { width: wide, height: high, rx: Math.min(4, high / 3) }));
    const title = made("title", {});
    title.textContent = picture.nameOf(box);
    group.append(title);
    if (!isDense) {
      const letters = Math.floor(wide / 7);
      const text = made("text", { x: 6, y: 16 });
      text.textContent = cut(box.isGroup ? box.name : calledOf(nodes[box.members[0]]), letters);
      group.append(text);
    }
    if (box.isGroup) {
      part.counts = made("text", { x: 6, y: 30 });
      part.shares = ORDER.map((state) => made("rect", { class: `share ${state}`, y: high - 4, height: 4, width: 0 }));
      group.append(part.counts, ...part.shares);
    }
    group.addEventListener("click", () => picture.choose(index));
    group.addEventListener("dblclick", () => { picture.choose(index); picture.toggle(); });
    return part;
  }

  // States, the way that takes longest, and what is chosen.
  paint() {
    const { boxes, onWay } = this.picture;
    boxes.forEach((box, index) => this.paintOne(box, this.parts[index], onWay.has(index)));
    for (const [from, to, path] of this.edges) {
      const name = onWay.has(from) && onWay.has(to) ? "way" : "";
      if ((path.getAttribute("class") ?? "") !== name) path.setAttribute("class", name);
    }
  }

  paintOne(box, part, isOnWay) {
    const { graph: { nodes }, sizes, chosen } = this.picture;
    const counts = countsOf(nodes, box.members);
    const state = box.isGroup ? (counts.failed ? "group failed" : "group") : nodes[box.members[0]][STATE];
    const name = `node ${state}${isOnWay ? " way" : ""}${box.key === chosen ? " chosen" : ""}`;
    if (part.group.getAttribute("class") !== name) part.group.setAttribute("class", name);
    if (!box.isGroup) return;
    const ended = ORDER.filter((one) => ENDED.has(one)).reduce((sum, one) => sum + (counts[one] ?? 0), 0);
    const failed = counts.failed ? `, ${count(counts.failed)} failed` : "";
    write(part.counts, `${count(ended)} of ${count(box.members.length)}${failed}`);
    let x = 0;
    ORDER.forEach((one, place) => {
      const share = sizes.wide * (counts[one] ?? 0) / box.members.length;
      const wide = share && one === "failed" ? Math.max(share, FAILED_WIDE) : Math.min(share, sizes.wide - x);
      part.shares[place].setAttribute("x", x);
      part.shares[place].setAttribute("width", wide);
      x += wide;
    });
  }

  reveal(index) {
    this.parts[index].group.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  resize(zoom) {
    this.element.setAttribute("width", this.picture.width * zoom);
    this.element.setAttribute("height", this.picture.height * zoom);
  }

  // The browser draws it.
  soon() {}

  draw() {}
}

function made(tag, attributes) {
  const one = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  return one;
}
