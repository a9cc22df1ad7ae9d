// The one switch that makes every rule only log, in case the limits themselves are the problem.
import { get, me, patch } from '../api.ts';
import { ask } from '../dialog.ts';
import { button, fill, h, toast } from '../dom.ts';

type Enforcement = 'on' | 'log';

export async function showEnforcement(place: HTMLElement, signal: AbortSignal): Promise<void> {
  const { enforcement } = await get<{ enforcement: Enforcement }>('/settings', {}, signal);
  const isOff = enforcement === 'log';
  const change = async (to: Enforcement) => {
    await patch('/settings', { enforcement: to });
    toast(to === 'log' ? 'Every rule only logs now.' : 'Rules are enforced again.');
    await showEnforcement(place, signal);
  };
  if (isOff)
    fill(
      place,
      h(
        'p',
        { class: 'notice warn', role: 'status' },
        'Every rule only logs: nobody is limited. Lists still hold. ',
      ),
      me.mayChange && button('Enforce again', () => void change('on')),
    );
  else
    fill(
      place,
      me.mayChange &&
        button('Only log, everywhere…', () => confirmOff(() => change('log')), { class: 'small' }),
    );
}

const confirmOff = (act: () => Promise<void>) =>
  ask({
    title: 'Switch all limits off?',
    detail:
      'Every rule only records what it would have done, in every region, within a second. Lists still hold.',
    submit: 'Only log',
    act,
  });
