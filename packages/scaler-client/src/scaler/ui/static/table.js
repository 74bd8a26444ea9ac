// A table that can be sorted, searched, and that never holds more rows than a browser likes. It says when it does not.
import { count, element } from "./format.js";

const ROWS_SHOWN = 200;
const ROWS_COLLATED = 2000;  // more texts are put in the order of their letters, which takes a tenth of the time
const collator = new Intl.Collator("en", { numeric: true });

export class Table {
  // columns: {key, title, show(value, row) -> text, number: bool, button(row) -> handler, tip(value) -> text,
  // kind: class of its cells, value(row): in place of row[key]}; or with draw(cell, row), which fills the cell itself.
  constructor(place, columns, { caption, empty = "none", sort = null, rowClass = () => "" }) {
    this.columns = columns;
    this.empty = empty;
    this.rowClass = rowClass;
    this.sort = sort;
    this.rows = [];
    this.most = ROWS_SHOWN;
    this.note = element("p", "", { class: "note" });
    this.more = element("button", `Show ${ROWS_SHOWN} more`, { type: "button", hidden: "" });
    this.more.addEventListener("click", () => { this.most += ROWS_SHOWN; this.show(this.rows); });
    const table = element("table");
    table.append(element("caption", caption, { class: "skip" }));
    this.heads = columns.map((column) => this.head(column));
    const line = element("tr");
    line.append(...this.heads);
    const head = element("thead");
    head.append(line);
    this.body = element("tbody");
    table.append(head, this.body);
    const wide = element("div", undefined, { class: "wide", tabindex: "0", role: "region", "aria-label": caption });
    wide.append(table);
    const foot = element("div", undefined, { class: "foot" });
    foot.append(this.note, this.more);
    place.replaceChildren(wide, foot);
  }

  head(column) {
    const cell = element("th", undefined, { scope: "col", class: kindOf(column) });
    const button = element("button", column.title, { type: "button" });
    button.addEventListener("click", () => {
      const down = this.sort && this.sort.key === column.key ? !this.sort.down : Boolean(column.number);
      this.sort = { key: column.key, down };
      this.show(this.rows);
    });
    cell.append(button);
    return cell;
  }

  // Rows are kept as elements and only their texts change: a screen reader and a selection stay where they are.
  // `rows` is an array, or anything else with its length and its slice.
  show(rows) {
    this.rows = rows;
    const sorted = this.sorted(rows);
    const shown = sorted.slice(0, this.most);
    while (this.body.rows.length > shown.length) this.body.deleteRow(-1);
    while (this.body.rows.length < shown.length) this.body.append(this.line());
    shown.forEach((row, index) => this.fill(this.body.rows[index], row));
    this.columns.forEach((column, index) => {
      const is = this.sort && this.sort.key === column.key;
      this.heads[index].setAttribute("aria-sort", is ? (this.sort.down ? "descending" : "ascending") : "none");
      const mark = is ? (this.sort.down ? " ▼" : " ▲") : "";
      this.heads[index].firstChild.textContent = column.title + mark;
    });
    const isCut = sorted.length > shown.length;
    const cut = isCut ? `${count(shown.length)} of ${count(sorted.length)} are shown: sort, search, or` : "";
    this.note.textContent = rows.length ? cut : this.empty;
    this.more.hidden = !isCut;
  }

  sorted(rows) {
    if (!this.sort) return rows;
    const { key, down } = this.sort;
    const sign = down ? -1 : 1;
    const compare = rows.length > ROWS_COLLATED ? (a, b) => (a < b ? -1 : Number(a > b)) : collator.compare;
    const order = (a, b) => (typeof a === "string" ? compare(a, b) : a - b);
    const value = this.columns.find((column) => column.key === key)?.value ?? ((row) => row[key]);
    return rows.slice(0, rows.length).sort((a, b) => sign * order(value(a), value(b)));
  }

  line() {
    const line = element("tr");
    for (const column of this.columns) {
      const cell = element("td", undefined, { class: kindOf(column) });
      if (column.button) {
        const button = element("button", "", { type: "button" });
        button.addEventListener("click", () => column.button(line.row));
        cell.append(button);
      }
      line.append(cell);
    }
    return line;
  }

  fill(line, row) {
    line.row = row;
    const name = this.rowClass(row);
    if (line.className !== name) line.className = name;
    this.columns.forEach((column, index) => {
      if (column.draw) {
        column.draw(line.cells[index], row);
        return;
      }
      const value = column.value ? column.value(row) : row[column.key];
      const text = column.show ? column.show(value, row) : String(value);
      const cell = line.cells[index];
      const place = column.button ? cell.firstChild : cell;
      if (place.textContent !== text) {
        place.textContent = text;
        cell.title = column.tip?.(value) || (text.length > 24 ? text : "");
        if (column.button) place.hidden = !text;
      }
    });
  }
}

const kindOf = ({ number, kind }) => [number ? "number" : "", kind ?? ""].join(" ").trim();

export const matches = (wanted, ...texts) =>
  wanted.every((word) => texts.some((text) => text.toLowerCase().includes(word)));
export const words = (input) => input.value.toLowerCase().split(/\s+/).filter(Boolean);
