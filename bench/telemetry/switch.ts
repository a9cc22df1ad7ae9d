// Whether the isolate counts what its requests do. The bench turns it while the isolate runs.
export const telling = { isOn: true };
