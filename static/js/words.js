// Words of the page's language; the catalogue is the classic script /words.js, loaded before every module.
export const _ = (text) => (window.gettext ? window.gettext(text) : text);
export const ngettext = (one, many, n) => (window.ngettext ? window.ngettext(one, many, n) : n === 1 ? one : many);
export const fill = (text, values) => window.interpolate ? window.interpolate(text, values, true) : text.replace(/%\((\w+)\)s/g, (_m, k) => values[k]);

const lang = document.documentElement.lang || "en";
const number = new Intl.NumberFormat(lang);
const decimal = new Intl.NumberFormat(lang, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const whole = (n) => number.format(n);

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) { count /= 1000; unit += 1; }
  return `${unit ? decimal.format(count) : number.format(count)} ${units[unit]}`;
}
