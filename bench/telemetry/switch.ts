// Whether the isolate counts its requests. The bench changes this while the isolate runs.
export const telling = { isOn: true };
